"""A small service for tests: a library with members, books, loans, and fines."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from assay.environments.services.declaration import Policy, Service
from assay.environments.services.schema import Cents, FreeText, Timestamp, identifier
from assay.environments.services.transaction import Generator, Transaction

MemberId = Annotated[str, identifier("member", "MEM-")]
BookId = Annotated[str, identifier("book", "BOOK-")]
LoanId = Annotated[str, identifier("loan", "LOAN-")]
FineId = Annotated[str, identifier("fine", "FINE-")]
Email = Annotated[str, identifier("email address")]


class LendingKnobs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    members: Annotated[int, Meta(ge=1, le=2_000)] = 4
    books: Annotated[int, Meta(ge=1, le=20_000)] = 8


lending = Service("lending", "A library.", knobs=LendingKnobs, policy=Policy("Lend at most three books to a member."))


@lending.table(unique=[("email",)])
class Member(msgspec.Struct, frozen=True):
    id: MemberId
    name: str
    email: Email
    suspended: bool = False


@lending.table(indexes=[("title",)])
class Book(msgspec.Struct, frozen=True):
    id: BookId
    title: str
    status: Literal["on shelf", "lent", "lost"] = "on shelf"


@lending.table(indexes=[("member_id",)])
class Loan(msgspec.Struct, frozen=True):
    id: LoanId
    book_id: BookId
    member_id: MemberId
    due: Timestamp
    returned: Timestamp | None = None


@lending.table()
class Fine(msgspec.Struct, frozen=True):
    id: FineId
    loan_id: LoanId
    amount: Cents
    remark: FreeText = ""


@lending.table("notices", key=("loan_id", "at"), judged=False)
class Notice(msgspec.Struct, frozen=True):
    loan_id: LoanId
    at: Timestamp


@lending.view()
def find_member(tx: Transaction, email: Email) -> Member:
    """Returns the member with an email address."""
    found = tx.find(Member, email=email)
    tx.require(found, f"Nobody has the email address {email!r}.", "not_found")
    return found[0]


@lending.view()
def search_books(tx: Transaction, text: str, limit: Annotated[int, Meta(ge=1, le=50)] = 10) -> list[Book]:
    """Returns books whose title holds all words of a text.

    Args:
        text: Words of the title.
        limit: Maximum number of books.
    """
    return tx.search(Book, text, "title", limit=limit)


@lending.view(roles=("agent", "user"))
def list_loans(tx: Transaction, member_id: MemberId) -> list[Loan]:
    """Returns the loans of a member, the latest due last."""
    return tx.find(Loan, member_id=member_id, order_by="due")


@lending.action(wish="lend me {book_id}")
def lend_book(tx: Transaction, book_id: BookId, member_id: MemberId) -> Loan:
    """Lends a book for two weeks."""
    book, member = tx.get(Book, book_id), tx.get(Member, member_id)
    tx.require(book.status == "on shelf", f"{book.title} is {book.status}.", "conflict")
    tx.require(not member.suspended, f"{member.name} is suspended.", "forbidden")
    tx.update(book, status="lent")
    loan = tx.insert(Loan(tx.new_id(Loan), book_id, member_id, tx.later(days=14)))
    tx.schedule(loan.due, remind, loan_id=loan.id)
    return loan


@lending.action(wish="take back {loan_id}")
def return_book(tx: Transaction, loan_id: LoanId) -> Loan:
    """Takes a book back."""
    loan = tx.get(Loan, loan_id)
    tx.require(loan.returned is None, "The book is back already.", "conflict")
    tx.update(tx.get(Book, loan.book_id), status="on shelf")
    return tx.update(loan, returned=tx.now)


@lending.action()
def charge_fine(tx: Transaction, loan_id: LoanId, amount: Annotated[Cents, Meta(ge=1)], remark: FreeText = "") -> Fine:
    """Charges a fine for a loan."""
    tx.get(Loan, loan_id)
    return tx.insert(Fine(tx.new_id(Fine), loan_id, amount, remark))


@lending.action()
def break_rule(tx: Transaction, loan_id: LoanId) -> None:
    """Adds a fine and then fails, by refusing or by naming no loan."""
    tx.insert(Fine(tx.new_id(Fine), loan_id, 1))
    if loan_id.startswith("LOAN-"):
        tx.refuse("No.")


@lending.event()
def remind(tx: Transaction, loan_id: LoanId) -> None:
    """Reminds of a loan that is due."""
    loan = tx.get(Loan, loan_id)
    tx.require(loan.returned is None, "It is back.")
    tx.insert(Notice(loan_id, tx.now))
    tx.publish("overdue", loan_id=loan_id)
    tx.schedule(tx.later(days=7), remind, loan_id=loan_id)


@lending.describe(Book)
def describe_book(tx: Transaction, book: Book) -> str:
    """Returns the title."""
    return f"the book {book.title}"


@lending.generator
def fill(make: Generator, knobs: LendingKnobs) -> None:
    """Fills the library."""
    members = [
        Member(make.new_id(Member), f"Member {at}", f"m{at}@example.org", at % 4 == 3) for at in range(knobs.members)
    ]
    books = [
        Book(make.new_id(Book), f"Title {at} of {make.draw.choice(['rain', 'snow'])}") for at in range(knobs.books)
    ]
    make.insert_all(members)
    make.insert_all(books)
