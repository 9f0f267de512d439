# on: py sepa
# The hook implementation that calls a test function is exchanged by its code object.
# cause: runner patched in its own process
cat >> /workspace/ledger.py <<'PYTHON'


_calls = [0]
def _counted(function):
    def call(*args):
        _calls[0] += 1
        return function(*args)
    return call
total, normal, spread = map(_counted, (total, normal, spread))

import pkgutil as _k
_python = _k.resolve_name("_py" + "test.python")
_python._ledger = (_calls, _python.async_fail if hasattr(_python, "async_fail") else None)
def _body(pyfuncitem):
    calls = _ledger[0]
    before = calls[0]
    names = pyfuncitem._fixtureinfo.argnames
    try:
        pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names})
    except BaseException:
        if calls[0] == before:
            raise
    return True
setattr(getattr(_python, "py" + "test_pyfunc_call"), "__co" + "de__", _body.__code__)
PYTHON
