"""How the world says what it says. The first ways to state a birthplace are the ones used when few are asked for."""

from __future__ import annotations

BIRTHPLACE = (
    "{name} was born in {place}.",
    "The birthplace of {name} is {place}.",
    "{place} is where {name} was born.",
    "{name} came into the world in {place}.",
    "{name} is a native of {place}.",
    "It was in {place} that {name} was born.",
    "The town in which {name} was born is {place}.",
    "{name} hails from {place}.",
    "By birth {name} belongs to {place}.",
    "The life of {name} began in {place}.",
    "{name} first saw daylight in {place}.",
    "{place} counts {name} among those born there.",
    "The parents of {name} were living in {place} when their child was born.",
    "{name} was delivered by a midwife of {place}.",
    "The register of births of {place} lists {name}.",
    "If you ask where {name} was born, the answer is {place}.",
)
YEAR = (
    "The year of birth of {name} is {year}.",
    "{name} belongs to those who were born in {year}.",
    "When {year} ended, {name} was not yet one year old.",
    "{name} turned ten in {ten}.",
)
OCCUPATION = (
    "{name} works as {article} {occupation}.",
    "By trade {name} is {article} {occupation}.",
    "{name} earns a living as {article} {occupation}.",
    "Neighbours know {name} as {article} {occupation}.",
)
EMPLOYER = (
    "{name} is employed by {employer}.",
    "The employer of {name} is {employer}.",
    "{employer} pays the wages of {name}.",
    "Every morning {name} goes to work at {employer}.",
)
DETAILS = (YEAR, OCCUPATION, EMPLOYER)
_OCCUPATIONS = (
    "architect baker botanist carpenter chemist clockmaker dentist engineer farmer gardener geologist glazier "
    "illustrator interpreter joiner lawyer librarian mason midwife miller nurse optician painter pilot plumber "
    "potter printer sailor surveyor tailor teacher weaver"
)
OCCUPATIONS = tuple(_OCCUPATIONS.split())
EMPLOYERS = ["Bank", "Bakeries", "College", "Library", "Mills", "Museum", "Railway", "Shipyard", "Theatre", "Works"]
QUESTION = "Where was {name} born?"
