"""Which properties a topic can be given: text, and none that makes it a shadow, which nothing here could take back."""

from collections.abc import Mapping

from mledger.errors import InvalidProperties
from mledger.ledgers.shadow_topics import SHADOW_SOURCE


def check_topic_properties(properties: Mapping[str, str]) -> None:
    """Raise InvalidProperties unless a topic can have these properties.

    A topic with the property of a shadow cannot be opened, changed or deleted any more, and a Pulsar broker would
    replace its list of ledgers with that of the source.
    """
    for key, value in properties.items():
        if not isinstance(key, str) or not isinstance(value, str):
            raise InvalidProperties(f"property {key!r:.100} of the topic is {value!r:.100}: give text keys and values")
    if SHADOW_SOURCE in properties:
        raise InvalidProperties(
            f"property {SHADOW_SOURCE} would make the topic a shadow, whose ledgers are another topic's: create a "
            "shadow topic with pulsar-admin"
        )
