"""How strictly the tests check annotations: as beartype does, with an int good for a float."""

from beartype import BeartypeConf, beartype

checked = beartype(conf=BeartypeConf(is_pep484_tower=True))
