"""The error of a topic or cursor that is used in another thread than that of its event loop.

Two threads that append at once would give two entries one id, or a caller the other's position. Whoever checks compares
`threading.get_ident` in place, as a call more for each batch would cost three times as much.
"""


def other_thread() -> RuntimeError:
    """The error to raise in another thread."""
    return RuntimeError(
        "a topic or cursor was used in another thread than that of its event loop: nothing was done; call it there, "
        "for example in a coroutine that you hand to asyncio.run_coroutine_threadsafe"
    )
