"""Words that several applications share: names of people, dates as they are spoken, and readers of word lists."""

from __future__ import annotations

from datetime import date
from typing import Final


def words(text: str) -> tuple[str, ...]:
    """Splits a list of words at white space."""
    return tuple(text.split())


def phrases(text: str) -> tuple[str, ...]:
    """Splits a list of phrases at vertical bars."""
    return tuple(" ".join(phrase.split()) for phrase in text.split("|"))


OFFICE_FIRST_NAMES: Final = words(
    """
    Aisha Alan Amara Anders Anna Arjun Astrid Beatriz Ben Bianca Carlos Carmen Chidi Clara Dalia Daniel Deepa
    Diego Elena Elif Emil Erik Esther Fatima Felix Finn Freya Gabriel Grace Hana Hassan Helena Hugo Ines Ingrid
    Isaac Ivan Jana Jasper Joana Johan Jonas Julia Kai Karim Katya Kenji Lars Layla Leo Lina Lucia Luis Magnus
    Maja Malik Marta Mateo Mei Mila Milan Mina Nadia Naomi Nils Noor Olga Omar Oscar Paula Pavel Petra Priya
    Rafael Ravi Rosa Ruth Samir Sara Sofia Soren Stella Tariq Teresa Theo Tomas Uma Vera Victor Wanda Wei Xenia
    Yara Yusuf Zara Zoe
    """
)
OFFICE_SURNAMES: Final = words(
    """
    Abbott Adeyemi Ahmed Almeida Andersen Aydin Bauer Becker Bell Berg Bianchi Bose Brandt Castro Chen Clarke
    Cohen Costa Dahl Demir Dias Diaz Dubois Ekberg Eriksen Farah Ferrari Fischer Fontaine Garcia Gomez Gupta
    Haas Hansen Harris Hassan Hoffmann Holm Ibrahim Ito Iyer Jansen Jensen Kaya Keller Khan Kim Kowalski Kumar
    Lang Larsen Laurent Lee Lind Lopez Maier Marino Martin Mendes Meyer Moreau Morgan Nakamura Navarro Nguyen
    Novak Nunez Nyberg Oduya Okafor Olsen Ortiz Osei Park Patel Pereira Petrov Popov Quinn Rahman Ramos Reyes
    Ricci Rossi Roy Sandberg Santos Sato Schmidt Shah Silva Singh Sokolov Sousa Stein Suzuki Takeda Torres Ueda
    Vargas Vogel Walsh Weber Wolf Wright Yamada Yilmaz Young Zhang Ziegler
    """
)
MONTHS: Final = words("January February March April May June July August September October November December")


def spoken_date(time: str) -> str:
    """Returns the day of a date or time in words: `3 February 2026`."""
    day = date.fromisoformat(time[:10])
    return f"{day.day} {MONTHS[day.month - 1]} {day.year}"


PERSON_NAME: Final = "Robin Falk"
"""The person whom agents serve if the task names no other."""
PERSON_EMAIL: Final = "robin.falk@lumenworks.example"
