"""Words of ten sites: what is chosen there, what is counted, and what is written down on one page for another."""

from __future__ import annotations

from typing import Final, NamedTuple


class Domain(NamedTuple):
    """Words of a site."""

    name: str
    summary: str
    sections: tuple[tuple[str, str], ...]
    """Title and sentence of each section."""
    choices: tuple[tuple[str, tuple[str, ...]], ...]
    """Variables with their values, the first of which holds at the start."""
    counted: str
    code: str
    """Code that is redeemed in a section."""
    number: str
    """Code that the last step asks for."""
    end: str
    """Title of the last screen."""


_UNDECIDED: Final = "undecided"

DOMAINS: Final = (
    Domain(
        "bakery",
        "Orders of a bakery.",
        (
            ("Cakes", "What the cake is to be."),
            ("Decoration", "How the cake is decorated."),
            ("Delivery", "How the cake gets to you."),
            ("Notices", "News of the bakery."),
            ("My account", "What the bakery knows about you."),
        ),
        (
            ("flavour", (_UNDECIDED, "lemon", "hazelnut", "cherry")),
            ("glaze", ("none", "white", "dark")),
            ("collection", (_UNDECIDED, "in the shop", "by bicycle", "by van")),
        ),
        "candles",
        "voucher",
        "customer_number",
        "Order placed",
    ),
    Domain(
        "garage",
        "Appointments of a car workshop.",
        (
            ("Services", "What is to be done to the car."),
            ("Tyres", "Tyres and their storage."),
            ("Courtesy cars", "A car for the time of the repair."),
            ("Offers", "This month's offers."),
            ("Papers", "Documents of the car."),
        ),
        (
            ("inspection", ("none", "small", "large")),
            ("tyre_set", (_UNDECIDED, "summer", "winter", "all year")),
            ("replacement_car", ("none", "city car", "estate", "bicycle")),
        ),
        "wiper_blades",
        "offer_code",
        "chassis_number",
        "Appointment booked",
    ),
    Domain(
        "library",
        "Loans of a town library.",
        (
            ("Catalogue", "Where the books stand."),
            ("Reading room", "Places in the reading room."),
            ("Interlibrary loan", "Books of other libraries."),
            ("Notice board", "News of the library."),
            ("My card", "Your library card."),
        ),
        (
            ("branch", (_UNDECIDED, "harbour", "castle", "station")),
            ("seat", ("none", "window", "quiet zone", "group table")),
            ("shipping", ("none", "post", "courier")),
        ),
        "reservations",
        "waiver",
        "card_number",
        "Loan confirmed",
    ),
    Domain(
        "clinic",
        "Visits to a clinic.",
        (
            ("Departments", "Who you want to see."),
            ("Preparation", "What to do before the visit."),
            ("Transport", "How you get here."),
            ("Information", "Good to know."),
            ("My file", "Your file at the clinic."),
        ),
        (
            ("department", (_UNDECIDED, "eyes", "heart", "skin")),
            ("language", ("English", "German", "Polish", "Turkish")),
            ("ride", ("none", "taxi", "ambulance")),
        ),
        "companions",
        "referral",
        "file_number",
        "Visit arranged",
    ),
    Domain(
        "museum",
        "Tickets of a museum.",
        (
            ("Exhibitions", "What can be seen."),
            ("Guided tours", "Tours and their languages."),
            ("Cloakroom", "Where bags stay."),
            ("Newsletter", "The latest issue."),
            ("Membership", "Friends of the museum."),
        ),
        (
            ("exhibition", (_UNDECIDED, "maps", "glass", "machines", "birds")),
            ("tour", ("none", "morning", "noon", "evening")),
            ("locker", ("none", "small", "large")),
        ),
        "visitors",
        "discount",
        "member_number",
        "Tickets issued",
    ),
    Domain(
        "printshop",
        "Orders of a print shop.",
        (
            ("Paper", "Sorts of paper."),
            ("Binding", "How it is held together."),
            ("Colours", "Inks and proofs."),
            ("Price list", "Prices of this year."),
            ("Customers", "What is stored about you."),
        ),
        (
            ("paper", (_UNDECIDED, "recycled", "glossy", "laid")),
            ("binding", ("none", "stapled", "sewn", "spiral")),
            ("ink", ("black", "blue", "four colours")),
        ),
        "copies",
        "rebate",
        "client_number",
        "Print job sent",
    ),
    Domain(
        "gym",
        "Memberships of a sports club.",
        (
            ("Courses", "What is taught."),
            ("Trainers", "Who helps you."),
            ("Lockers", "Where your things stay."),
            ("Pinboard", "From members for members."),
            ("Profile", "Your profile."),
        ),
        (
            ("course", (_UNDECIDED, "rowing", "climbing", "judo")),
            ("trainer", ("none", "Ilse", "Tomas", "Wanda")),
            ("plan", ("monthly", "yearly", "daily")),
        ),
        "guest_passes",
        "bonus",
        "profile_number",
        "Membership set up",
    ),
    Domain(
        "hotel",
        "Rooms of a hotel by the sea.",
        (
            ("Rooms", "What rooms there are."),
            ("Meals", "What is eaten when."),
            ("Parking", "Where the car stays."),
            ("Gazette", "The paper of the house."),
            ("Guest book", "You as a guest."),
        ),
        (
            ("room", (_UNDECIDED, "garden", "sea view", "attic")),
            ("board", ("none", "breakfast", "half", "full")),
            ("car_place", ("none", "yard", "cellar")),
        ),
        "towels",
        "upgrade",
        "guest_number",
        "Room booked",
    ),
    Domain(
        "parcels",
        "Parcels of a carrier.",
        (
            ("Sizes", "How large the parcel is."),
            ("Routes", "Which way it takes."),
            ("Insurance", "What is covered."),
            ("Bulletin", "Delays and news."),
            ("Sender", "You as a sender."),
        ),
        (
            ("size", (_UNDECIDED, "letter", "box", "pallet")),
            ("route", ("road", "rail", "air")),
            ("cover", ("none", "basic", "full")),
        ),
        "labels",
        "coupon",
        "sender_number",
        "Parcel announced",
    ),
    Domain(
        "permits",
        "Permits of a town hall.",
        (
            ("Purposes", "What the permit is for."),
            ("Zones", "Where it holds."),
            ("Fees", "What it costs."),
            ("Gazette", "Announcements of the town."),
            ("Applicant", "You as an applicant."),
        ),
        (
            ("purpose", (_UNDECIDED, "market stall", "street music", "filming")),
            ("zone", (_UNDECIDED, "old town", "harbour", "park")),
            ("fee", ("full", "reduced", "waived")),
        ),
        "days",
        "clearance",
        "case_number",
        "Permit granted",
    ),
)
"""The domains, in the order in which tasks take turns."""
