"""BFCL's `TradingBot`: stocks, orders and the balance of an account."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Final, Self

from msgspec import field

from .tool_class import Number, SeededState, Setting, ToolClass

_NOW: Final = datetime(2024, 9, 1, 10, 30)  # noqa: DTZ001 - the original's time has no zone
_DAY_S: Final = 86_400
_STAMP: Final = "%Y-%m-%d %H:%M:%S"
_SYMBOLS: Final = {
    "Apple": "AAPL",
    "Google": "GOOG",
    "Tesla": "TSLA",
    "Microsoft": "MSFT",
    "Nvidia": "NVDA",
    "Zeta Corp": "ZETA",
    "Alpha Tech": "ALPH",
    "Omega Industries": "OMEG",
    "Quasar Ltd.": "QUAS",
    "Neptune Systems": "NEPT",
    "Synex Solutions": "SYNX",
    "Amazon": "AMZN",
    "Gorilla": "GORI",
}
_SECTORS: Final = {"Technology": ["AAPL", "GOOG", "MSFT", "NVDA"], "Automobile": ["TSLA", "F", "GM"]}
_STOCKS: Final = {
    "AAPL": (227.16, 0.17, 2.552, 227.11, 227.09),
    "GOOG": (2840.34, 0.24, 1.123, 2835.67, 2842.15),
    "TSLA": (667.92, -0.12, 1.654, 671.15, 668.20),
    "MSFT": (310.23, 0.09, 3.234, 309.88, 310.11),
    "NVDA": (220.34, 0.34, 1.234, 220.45, 220.67),
    "ALPH": (1320.45, -0.08, 1.567, 1321.12, 1325.78),
    "OMEG": (457.23, 0.12, 2.345, 456.78, 458.12),
    "QUAS": (725.89, -0.03, 1.789, 726.45, 728.00),
    "NEPT": (88.34, 0.19, 0.654, 88.21, 88.67),
    "SYNX": (345.67, 0.11, 2.112, 345.34, 346.12),
    "ZETA": (22.09, -0.05, 0.789, 22.12, 22.34),
}


def _default_stocks() -> dict[str, dict[str, Any]]:
    names = ("price", "percent_change", "volume", "MA(5)", "MA(20)")
    return {symbol: dict(zip(names, figures, strict=True)) for symbol, figures in _STOCKS.items()}


def _default_orders() -> dict[int, dict[str, Any]]:
    return {
        12345: _order(12345, "Buy", "AAPL", 210.65, 10) | {"status": "Completed"},
        12446: _order(12446, "Sell", "GOOG", 2840.56, 5) | {"status": "Pending"},
    }


def _default_account() -> dict[str, Any]:
    return {"account_id": 12345, "balance": 10000.0, "binding_card": 1974202140965533}


def _order(number: int, order_type: str, symbol: str, price: float, amount: int) -> dict[str, Any]:
    fields = {"id": number, "order_type": order_type, "symbol": symbol, "price": price, "amount": amount}
    return {**fields, "status": "Open"}


class TradingState(SeededState):
    """Attributes of the account and the market."""

    orders: dict[Any, dict[str, Any]] = field(default_factory=_default_orders)
    account_info: dict[str, Any] = field(default_factory=_default_account)
    authenticated: bool = False
    market_status: str = "Closed"
    order_counter: int = 12446
    stocks: dict[str, dict[str, Any]] = field(default_factory=_default_stocks)
    watch_list: list[str] = field(default_factory=lambda: ["NVDA"])
    transaction_history: list[dict[str, Any]] = field(default_factory=list)
    _extension: dict[str, Any] | None = None
    """Material of the long context."""

    @classmethod
    def load(cls, scenario: Mapping[str, Any], setting: Setting) -> Self:
        state = super().load(scenario, setting)
        state.orders = {
            int(key) if isinstance(key, str) and key.isdigit() else key: order for key, order in state.orders.items()
        }
        state._seed = scenario.get("random_seed", 1053520)
        if setting.extension is not None:
            names = ("MA_5", "MA_20", "ORDER_DETAIL", "WATCH_LIST", "TRANSACTION_HISTORY", "TECHNOLOGY", "AUTOMOBILE")
            state._extension = {name: setting.extension[f"{name}_EXTENSION"] for name in names}
        return state

    def add_transaction(self, kind: str, amount: Number) -> None:
        """Records a deposit or withdrawal at a random time of the day that follows."""
        stamp = (_NOW + timedelta(seconds=self.randint(0, _DAY_S))).strftime(_STAMP)
        self.transaction_history.append({"type": kind, "amount": amount, "timestamp": stamp})


trading: Final = ToolClass("TradingBot", "bfcltrading", "A stock trading account.", TradingState)
service: Final = trading.service


def _refusal(purpose: str) -> dict[str, str]:
    return {"error": f"User not authenticated. Please log in to {purpose}."}


@trading.tool
def get_current_time(_: TradingState) -> Any:
    """Returns the current time."""
    return {"current_time": _NOW.strftime("%I:%M %p")}


@trading.tool
def get_symbol_by_name(_: TradingState, name: str) -> Any:
    """Returns the stock symbol of a company.

    Args:
        name: Name of the company.
    """
    return {"symbol": _SYMBOLS.get(name, "Stock not found")}


@trading.tool
def get_stock_info(state: TradingState, symbol: str) -> Any:
    """Shows price, volume and moving averages of a stock.

    Args:
        symbol: Symbol of the stock.
    """
    if symbol not in state.stocks:
        return {"error": f"Stock with symbol '{symbol}' not found."}
    stock = state.stocks[symbol]
    if state._extension is None:
        return stock
    return {**stock, "MA(5)": state._extension["MA_5"], "MA(20)": state._extension["MA_20"]}


@trading.tool
def get_order_details(state: TradingState, order_id: int) -> Any:
    """Shows an order.

    Args:
        order_id: Identifier of the order.
    """
    if order_id not in state.orders:
        listed = f"Here is the list of orders_id: {list(state.orders)}"
        return {"error": f"Order with ID {order_id} not found.{listed}"}
    order = state.orders[order_id]
    if state._extension is None:
        return order
    texts = state._extension["ORDER_DETAIL"].items()
    return {**order, "metadata": {name: text.replace("{symbol}", order["symbol"]) for name, text in texts}}


@trading.tool
def cancel_order(state: TradingState, order_id: int) -> Any:
    """Cancels an order that is not completed.

    Args:
        order_id: Identifier of the order.
    """
    if order_id not in state.orders:
        return {"error": f"Order with ID {order_id} not found."}
    if state.orders[order_id]["status"] == "Completed":
        return {"error": f"Can't cancel order {order_id}. Order is already completed."}
    state.orders[order_id]["status"] = "Cancelled"
    return {"order_id": order_id, "status": "Cancelled"}


@trading.tool
def place_order(state: TradingState, order_type: str, symbol: str, price: Number, amount: int) -> Any:
    """Places an order.

    Args:
        order_type: Buy or Sell.
        symbol: Symbol of the stock.
        price: Price of one share.
        amount: Number of shares.
    """
    if not state.authenticated:
        return _refusal("place an order")
    if symbol not in state.stocks:
        return {"error": f"Invalid stock symbol: {symbol}"}
    if price <= 0 or amount <= 0:
        return {"error": "Price and amount must be positive values."}
    price = float(price)
    balance = state.account_info.get("balance", 0)
    if order_type.lower() == "buy" and price * amount > balance:
        return {"error": f"Insufficient funds: required ${price * amount:.2f} but only ${balance:.2f} available."}
    number = state.order_counter
    state.orders[number] = _order(number, order_type, symbol, price, amount)
    state.order_counter += 1
    # The order is open; the answer calls it pending, as if it were not yet executed.
    return {"order_id": number, "order_type": order_type, "status": "Pending", "price": price, "amount": amount}


@trading.tool
def withdraw_funds(state: TradingState, amount: Number) -> Any:
    """Withdraws money from the account while the market is open.

    Args:
        amount: Amount of money.
    """
    if not state.authenticated:
        return _refusal("make a transaction")
    if state.market_status != "Open":
        return {"error": "Market is closed. Transactions are not allowed."}
    if amount <= 0:
        return {"error": "Transaction amount must be positive."}
    if amount > state.account_info["balance"]:
        return {"error": "Insufficient funds for withdrawal."}
    state.account_info["balance"] -= amount
    state.add_transaction("withdrawal", amount)
    return {"status": "Withdrawal successful", "new_balance": state.account_info["balance"]}


@trading.tool
def get_account_info(state: TradingState) -> Any:
    """Shows the account: identifier, balance and card."""
    return state.account_info if state.authenticated else _refusal("view account information")


@trading.tool
def trading_login(state: TradingState, username: str, password: str) -> Any:
    """Logs in to the trading account.

    Args:
        username: Name of the user.
        password: Password of the user.
    """
    if state.authenticated:
        return {"status": "Already logged in"}
    state.authenticated = True
    return {"status": "Logged in successfully"}


@trading.tool
def trading_get_login_status(state: TradingState) -> Any:
    """Says whether a user is logged in to the trading account."""
    return {"status": bool(state.authenticated)}


@trading.tool
def trading_logout(state: TradingState) -> Any:
    """Logs out of the trading account."""
    if not state.authenticated:
        return {"status": "No user is currently logged in"}
    state.authenticated = False
    return {"status": "Logged out successfully"}


@trading.tool
def fund_account(state: TradingState, amount: Number) -> Any:
    """Pays money in to the account.

    Args:
        amount: Amount of money.
    """
    if not state.authenticated:
        return _refusal("fund the account")
    if amount <= 0:
        return {"error": "Funding amount must be positive."}
    state.account_info["balance"] += amount
    state.add_transaction("deposit", amount)
    return {"status": "Account funded successfully", "new_balance": state.account_info["balance"]}


@trading.tool
def remove_stock_from_watchlist(state: TradingState, symbol: str) -> Any:
    """Removes a stock from the watch list.

    Args:
        symbol: Symbol of the stock.
    """
    if not state.authenticated:
        return _refusal("modify the watchlist")
    if symbol not in state.watch_list:
        return {"error": f"Stock {symbol} not found in watchlist."}
    state.watch_list.remove(symbol)
    return {"status": f"Stock {symbol} removed from watchlist successfully."}


@trading.tool
def get_watchlist(state: TradingState) -> Any:
    """Lists the stocks of the watch list."""
    if not state.authenticated:
        return ["Error: User not authenticated. Please log in to view the watchlist."]
    if state._extension is not None:
        return [*state.watch_list, *state._extension["WATCH_LIST"]]
    return {"watchlist": state.watch_list}


@trading.tool
def get_order_history(state: TradingState) -> Any:
    """Lists the identifiers of all orders."""
    if not state.authenticated:
        return [_refusal("view order history")]
    return {"history": list(state.orders)}


@trading.tool
def get_transaction_history(state: TradingState, start_date: str | None = None, end_date: str | None = None) -> Any:
    """Lists deposits and withdrawals.

    Args:
        start_date: First day, as YYYY-MM-DD.
        end_date: Last day, as YYYY-MM-DD.
    """
    if not state.authenticated:
        return [_refusal("view transaction history")]
    first = _parse_time(start_date, "%Y-%m-%d") if start_date else datetime.min  # noqa: DTZ901 - nor has this one a zone
    last = _parse_time(end_date, "%Y-%m-%d") if end_date else datetime.max  # noqa: DTZ901
    found = [one for one in state.transaction_history if first <= _parse_time(one["timestamp"], _STAMP) <= last]
    added = [] if state._extension is None else state._extension["TRANSACTION_HISTORY"]
    return {"transaction_history": [*found, *added]}


def _parse_time(text: str, form: str) -> datetime:
    return datetime.strptime(text, form)  # noqa: DTZ007 - the original's times have no zone


@trading.tool
def get_available_stocks(state: TradingState, sector: str) -> Any:
    """Lists the stocks of a sector.

    Args:
        sector: Name of the sector, such as Technology.
    """
    listed = _SECTORS.get(sector, [])
    if state._extension is not None and listed:
        listed = [*listed, *state._extension[sector.upper()]]
    return {"stock_list": listed}


@trading.tool
def filter_stocks_by_price(state: TradingState, stocks: list[str], min_price: Number, max_price: Number) -> Any:
    """Returns those of some stocks whose price is in a range.

    Args:
        stocks: Symbols of the stocks.
        min_price: Lowest price.
        max_price: Highest price.
    """
    prices = {symbol: state.stocks.get(symbol, {}).get("price", 0) for symbol in stocks}
    return {"filtered_stocks": [symbol for symbol in stocks if min_price <= prices[symbol] <= max_price]}


@trading.tool
def add_to_watchlist(state: TradingState, stock: str) -> Any:
    """Adds a stock to the watch list.

    Args:
        stock: Symbol of the stock.
    """
    if stock not in state.watch_list and stock in state.stocks:
        state.watch_list.append(stock)
    return {"watchlist": state.watch_list}


@trading.tool
def notify_price_change(state: TradingState, stocks: list[str], threshold: Number) -> Any:
    """Says which of some stocks have changed their price considerably.

    Args:
        stocks: Symbols of the stocks.
        threshold: Smallest change, in percent.
    """
    known = [symbol for symbol in stocks if symbol in state.stocks]
    changed = [symbol for symbol in known if abs(state.stocks[symbol]["percent_change"]) >= threshold]
    if not changed:
        return {"notification": "No significant price changes in the selected stocks."}
    return {"notification": f"Stocks {', '.join(changed)} have significant price changes."}
