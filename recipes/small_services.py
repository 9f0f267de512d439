"""Three small applications, and the demonstrations from which a model of a million weights learns to work in them.

`library` and `garage` are trained on. `clinic` is held out: the same kind of work with other tools, rows and words.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from assay.agents.interface import Attempt
from assay.environments.hooks import SolvesItself
from assay.environments.services.declaration import Service
from assay.environments.services.schema import identifier
from assay.environments.services.transaction import Generator, Transaction
from assay.errors import TaskError

Count = Annotated[int, Meta(ge=1, le=9)]
BookId = Annotated[str, identifier("book", "BK-", "A book")]
ReaderId = Annotated[str, identifier("reader", "RD-", "A reader")]
CarId = Annotated[str, identifier("car", "CR-", "A car")]
DriverId = Annotated[str, identifier("driver", "DR-", "A driver")]
BedId = Annotated[str, identifier("bed", "BD-", "A bed")]
PatientId = Annotated[str, identifier("patient", "PT-", "A patient")]

_PEOPLE = ("Ada", "Ben", "Cleo", "Dina", "Emil", "Fay", "Gus", "Hana", "Ivo", "Jane", "Kofi", "Lena")
_TITLES = ("Dunes", "Embers", "Falcons", "Glaciers", "Harbours", "Islands", "Jungles", "Kettles", "Lanterns", "Meadows",
           "Needles", "Orchards")  # fmt: skip
_PLATES = ("Aspen", "Birch", "Cedar", "Elm", "Fir", "Hazel", "Juniper", "Larch", "Maple", "Oak", "Pine", "Rowan")
_BEDS = ("Amber", "Coral", "Flint", "Garnet", "Jade", "Lapis", "Marble", "Onyx", "Pearl", "Quartz", "Ruby", "Topaz")


class SmallKnobs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    things: Count = 4
    people: Count = 3


def _numbered(make: Generator, names: tuple[str, ...], count: int) -> list[tuple[int, str]]:
    """Returns some of the names with the digit of their identifier: a small model copies one digit sooner than six."""
    return list(zip(make.draw.sample(range(1, 10), count), make.draw.sample(names, count), strict=True))


library = Service("library", "Books and readers.", knobs=SmallKnobs)


@library.table(key=["id"], unique=[["title"]])
class Book(msgspec.Struct, frozen=True):
    title: str
    id: BookId
    status: Literal["in", "out", "mending"]


@library.table(key=["id"], unique=[["name"]])
class Reader(msgspec.Struct, frozen=True):
    name: str
    id: ReaderId
    card: Literal["valid", "blocked"]


@library.table(key=["book_id"])
class Loan(msgspec.Struct, frozen=True):
    book_id: BookId
    reader_id: ReaderId


@library.view()
def list_books(tx: Transaction) -> list[Book]:
    """Returns all books."""
    return tx.find(Book)


@library.view()
def list_readers(tx: Transaction) -> list[Reader]:
    """Returns all readers."""
    return tx.find(Reader)


@library.action(wish="lend {book_id} to {reader_id}")
def lend_book(tx: Transaction, book_id: BookId, reader_id: ReaderId) -> Book:
    """Lends a book."""
    book, reader = tx.get(Book, book_id), tx.get(Reader, reader_id)
    tx.require(book.status == "in", "It is not in.", "conflict")
    tx.require(reader.card == "valid", "The card is blocked.", "forbidden")
    tx.insert(Loan(book_id, reader_id))
    return tx.update(book, status="out")


@library.action(wish="take {book_id} back")
def return_book(tx: Transaction, book_id: BookId) -> Book:
    """Takes a book back."""
    book = tx.get(Book, book_id)
    tx.require(book.status == "out", "It is not out.", "conflict")
    tx.delete(tx.get(Loan, book_id))
    return tx.update(book, status="in")


@library.action(wish="send {book_id} to be mended")
def mend_book(tx: Transaction, book_id: BookId) -> Book:
    """Sends a book to be mended."""
    book = tx.get(Book, book_id)
    tx.require(book.status == "in", "It is not in.", "conflict")
    return tx.update(book, status="mending")


@library.action(wish="block the card of {reader_id}")
def block_card(tx: Transaction, reader_id: ReaderId) -> Reader:
    """Blocks a card."""
    reader = tx.get(Reader, reader_id)
    tx.require(reader.card == "valid", "It is blocked.", "conflict")
    return tx.update(reader, card="blocked")


@library.action(wish="unblock the card of {reader_id}")
def unblock_card(tx: Transaction, reader_id: ReaderId) -> Reader:
    """Unblocks a card."""
    reader = tx.get(Reader, reader_id)
    tx.require(reader.card == "blocked", "It is valid.", "conflict")
    return tx.update(reader, card="valid")


@library.describe(Book)
def describe_book(_tx: Transaction, book: Book) -> str:
    return f"the book {book.title}"


@library.describe(Reader)
def describe_reader(_tx: Transaction, reader: Reader) -> str:
    return f"the reader {reader.name}"


@library.generator
def fill_library(make: Generator, knobs: SmallKnobs) -> None:
    people, things = _numbered(make, _PEOPLE, knobs.people), _numbered(make, _TITLES, knobs.things)
    readers = [Reader(name, f"RD-{digit}", make.draw.choice(["valid", "valid", "blocked"])) for digit, name in people]
    make.insert_all(readers)
    books = [Book(title, f"BK-{digit}", make.draw.choice(["in", "in", "out", "mending"])) for digit, title in things]
    make.insert_all(books)
    make.insert_all([Loan(book.id, make.draw.choice(readers).id) for book in books if book.status == "out"])


garage = Service("garage", "Cars for rent and drivers.", knobs=SmallKnobs)


@garage.table(key=["id"], unique=[["plate"]])
class Car(msgspec.Struct, frozen=True):
    plate: str
    id: CarId
    status: Literal["free", "rented", "repair"]


@garage.table(key=["id"], unique=[["name"]])
class Driver(msgspec.Struct, frozen=True):
    name: str
    id: DriverId
    licence: Literal["checked", "unchecked"]


@garage.table(key=["car_id"])
class Rental(msgspec.Struct, frozen=True):
    car_id: CarId
    driver_id: DriverId


@garage.view()
def list_cars(tx: Transaction) -> list[Car]:
    """Returns all cars."""
    return tx.find(Car)


@garage.view()
def list_drivers(tx: Transaction) -> list[Driver]:
    """Returns all drivers."""
    return tx.find(Driver)


@garage.action(wish="rent {car_id} to {driver_id}")
def rent_car(tx: Transaction, car_id: CarId, driver_id: DriverId) -> Car:
    """Rents a car."""
    car, driver = tx.get(Car, car_id), tx.get(Driver, driver_id)
    tx.require(car.status == "free", "It is not free.", "conflict")
    tx.require(driver.licence == "checked", "The licence is unchecked.", "forbidden")
    tx.insert(Rental(car_id, driver_id))
    return tx.update(car, status="rented")


@garage.action(wish="end the rental of {car_id}")
def end_rental(tx: Transaction, car_id: CarId) -> Car:
    """Ends a rental."""
    car = tx.get(Car, car_id)
    tx.require(car.status == "rented", "It is not rented.", "conflict")
    tx.delete(tx.get(Rental, car_id))
    return tx.update(car, status="free")


@garage.action(wish="take {car_id} in for repair")
def repair_car(tx: Transaction, car_id: CarId) -> Car:
    """Takes a car in for repair."""
    car = tx.get(Car, car_id)
    tx.require(car.status == "free", "It is not free.", "conflict")
    return tx.update(car, status="repair")


@garage.action(wish="give {car_id} out after its repair")
def release_car(tx: Transaction, car_id: CarId) -> Car:
    """Ends a repair."""
    car = tx.get(Car, car_id)
    tx.require(car.status == "repair", "It is not in repair.", "conflict")
    return tx.update(car, status="free")


@garage.action(wish="note that the licence of {driver_id} was checked")
def check_licence(tx: Transaction, driver_id: DriverId) -> Driver:
    """Notes that a licence was checked."""
    driver = tx.get(Driver, driver_id)
    tx.require(driver.licence == "unchecked", "It was checked.", "conflict")
    return tx.update(driver, licence="checked")


@garage.describe(Car)
def describe_car(_tx: Transaction, car: Car) -> str:
    return f"the car {car.plate}"


@garage.describe(Driver)
def describe_driver(_tx: Transaction, driver: Driver) -> str:
    return f"the driver {driver.name}"


@garage.generator
def fill_garage(make: Generator, knobs: SmallKnobs) -> None:
    people, things = _numbered(make, _PEOPLE, knobs.people), _numbered(make, _PLATES, knobs.things)
    drivers = [Driver(name, f"DR-{digit}", make.draw.choice(["checked", "unchecked"])) for digit, name in people]
    make.insert_all(drivers)
    cars = [
        Car(plate, f"CR-{digit}", make.draw.choice(["free", "free", "rented", "repair"])) for digit, plate in things
    ]
    make.insert_all(cars)
    make.insert_all([Rental(car.id, make.draw.choice(drivers).id) for car in cars if car.status == "rented"])


clinic = Service("clinic", "Beds and patients.", knobs=SmallKnobs)


@clinic.table(key=["id"], unique=[["label"]])
class Bed(msgspec.Struct, frozen=True):
    label: str
    id: BedId
    status: Literal["clean", "taken", "dirty"]


@clinic.table(key=["id"], unique=[["name"]])
class Patient(msgspec.Struct, frozen=True):
    name: str
    id: PatientId
    state: Literal["admitted", "discharged"]


@clinic.table(key=["bed_id"])
class Stay(msgspec.Struct, frozen=True):
    bed_id: BedId
    patient_id: PatientId


@clinic.view()
def list_beds(tx: Transaction) -> list[Bed]:
    """Returns all beds."""
    return tx.find(Bed)


@clinic.view()
def list_patients(tx: Transaction) -> list[Patient]:
    """Returns all patients."""
    return tx.find(Patient)


@clinic.action(wish="put {patient_id} into {bed_id}")
def assign_bed(tx: Transaction, bed_id: BedId, patient_id: PatientId) -> Bed:
    """Puts a patient into a bed."""
    bed, patient = tx.get(Bed, bed_id), tx.get(Patient, patient_id)
    tx.require(bed.status == "clean", "It is not clean.", "conflict")
    tx.require(patient.state == "admitted", "The patient is discharged.", "forbidden")
    tx.insert(Stay(bed_id, patient_id))
    return tx.update(bed, status="taken")


@clinic.action(wish="have {bed_id} cleaned")
def clean_bed(tx: Transaction, bed_id: BedId) -> Bed:
    """Has a bed cleaned."""
    bed = tx.get(Bed, bed_id)
    tx.require(bed.status == "dirty", "It is not dirty.", "conflict")
    return tx.update(bed, status="clean")


@clinic.action(wish="free {bed_id} from its patient")
def free_bed(tx: Transaction, bed_id: BedId) -> Bed:
    """Frees a bed, which is dirty then."""
    bed = tx.get(Bed, bed_id)
    tx.require(bed.status == "taken", "It is not taken.", "conflict")
    tx.delete(tx.get(Stay, bed_id))
    return tx.update(bed, status="dirty")


@clinic.action(wish="admit {patient_id} again")
def readmit_patient(tx: Transaction, patient_id: PatientId) -> Patient:
    """Admits a patient again."""
    patient = tx.get(Patient, patient_id)
    tx.require(patient.state == "discharged", "The patient is admitted.", "conflict")
    return tx.update(patient, state="admitted")


@clinic.action(wish="discharge {patient_id}")
def discharge_patient(tx: Transaction, patient_id: PatientId) -> Patient:
    """Discharges a patient."""
    patient = tx.get(Patient, patient_id)
    tx.require(patient.state == "admitted", "The patient is discharged.", "conflict")
    return tx.update(patient, state="discharged")


@clinic.describe(Bed)
def describe_bed(_tx: Transaction, bed: Bed) -> str:
    return f"the bed {bed.label}"


@clinic.describe(Patient)
def describe_patient(_tx: Transaction, patient: Patient) -> str:
    return f"the patient {patient.name}"


@clinic.generator
def fill_clinic(make: Generator, knobs: SmallKnobs) -> None:
    people, things = _numbered(make, _PEOPLE, knobs.people), _numbered(make, _BEDS, knobs.things)
    patients = [Patient(name, f"PT-{digit}", make.draw.choice(["admitted", "discharged"])) for digit, name in people]
    make.insert_all(patients)
    beds = [
        Bed(label, f"BD-{digit}", make.draw.choice(["clean", "clean", "taken", "dirty"])) for digit, label in things
    ]
    make.insert_all(beds)
    make.insert_all([Stay(bed.id, make.draw.choice(patients).id) for bed in beds if bed.status == "taken"])


class Demonstrator:
    """Makes the calls of the reference solution and then says that it is done, as a model has to."""

    name = "demonstrator"
    needs_model = False
    takes_solution = True

    async def run(self, attempt: Attempt) -> None:
        if not isinstance(attempt.tools, SolvesItself):
            raise TaskError(f"task {attempt.task.id!r} is not in a world that knows its solution")
        for call in attempt.tools.oracle():
            await attempt.act([call])
        attempt.say("done")
        attempt.finish("done")
