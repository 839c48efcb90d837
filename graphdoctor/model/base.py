"""The base class of all models. Imports only pydantic."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Fact(BaseModel):
    """An immutable record. An unknown key is an error, so a typo never passes as a fact."""

    model_config = ConfigDict(frozen=True, extra="forbid")
