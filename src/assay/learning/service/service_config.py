"""Limits and permissions of a rollout service. Imports no server: `assay serve --help` shows the options."""

from __future__ import annotations

from typing import Annotated

import msgspec

from assay.records import Limits

Count = Annotated[int, msgspec.Meta(ge=1)]


class RolloutServiceConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Limits and permissions of trainers."""

    policies: dict[str, str] = {}
    """Models that a client may name, as `name=MODEL`, MODEL as in `assay run`; `{version}` is replaced by the client's
    version: `actor=local:/weights/{version}`."""
    families: tuple[str, ...] = ()
    """Task families that a client may name, as `NAME` or `NAME,key=value`; repeatable. A client's own options are
    numbers and plain words: paths and code (`data=/data/tau2`, `app=shop.py:shop`) are listed here."""
    task_folders: tuple[str, ...] = ()
    """Folders below which a client may name task folders; repeatable."""
    agents: tuple[str, ...] = ("loop",)
    """Agents that a client may name; repeatable."""
    renderers: dict[str, str] = {}
    """Checkpoint folder of a policy, as `name=FOLDER`, for token roles; a `local:` policy needs none."""
    hooks: dict[str, str] = {}
    """Command that loads new weights into the engine of a policy, as `name=COMMAND`: run as `COMMAND NAME VERSION`,
    with exit code 0 when they are loaded, and perhaps again with the same version. `local:FOLDER/{version}` needs
    none."""
    host: str = "127.0.0.1"
    """Address to listen on; beyond loopback `tls_cert` and `tls_key` are needed."""
    port: int = 0
    """The port; 0 lets the system pick one."""
    tls_cert: str | None = None
    """Certificate (PEM) of the service, which then answers over TLS only; a self-signed one will do."""
    tls_key: str | None = None
    """Private key (PEM) of the certificate."""
    token_file: str | None = None
    """File with the token, created with mode 0600 if missing. Default: `service/token` in the store."""
    concurrency: Count = 16
    """Maximum concurrent attempts, over all batches."""
    waiting: Count = 64
    """Maximum unfinished batches; further requests are refused."""
    attempts: Count = 20_000
    """Attempts of one batch, at most."""
    kept: Count = 10_000
    """Maximum stored batches; further requests are refused until some are deleted."""
    limits: Limits = Limits(wall_s=600, turns=200)
    """Limits of each attempt; a client may ask for stricter ones."""
