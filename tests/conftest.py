"""What all tests share: how property tests behave on busy machines."""

import hypothesis

# A slow machine is no failure; what a property finds must not depend on how long it took.
hypothesis.settings.register_profile("windlass", deadline=None, print_blob=True)
hypothesis.settings.load_profile("windlass")
