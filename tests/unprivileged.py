"""Processes that file permissions apply to, also when the tests run as root."""

import ctypes

PR_CAPBSET_DROP = 24
# Capabilities that let root ignore the permissions of files.
DAC_OVERRIDE, DAC_READ_SEARCH = 1, 2


def drop_file_privileges() -> None:
    """Give up the right to ignore permissions; call it in the child before it starts its program."""
    library = ctypes.CDLL(None)
    for capability in (DAC_OVERRIDE, DAC_READ_SEARCH):
        # Without the right to drop rights the user is not root, and has none of these.
        library.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)
