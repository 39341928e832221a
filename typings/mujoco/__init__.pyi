# MuJoCo's compiled modules carry no types; without this file every name of them is an error.
from typing import Any

def __getattr__(name: str) -> Any: ...
