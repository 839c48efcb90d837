"""What every model of the vocabulary shares. Imports pydantic only."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Fact(BaseModel):
    """An immutable record; an unknown key is an error, so that a typo never passes as a fact."""

    model_config = ConfigDict(frozen=True, extra="forbid")
