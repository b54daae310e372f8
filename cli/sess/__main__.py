"""The start of the client, as a file under ``-I -S`` or as ``python -m sess``.

A file that is run is compiled anew each time, a module is not; hence the few lines here.
"""

import sys

if not __package__:
    # Without `site`, the folder we are installed in is not on the path.
    sys.path.append(__file__.removesuffix("/sess/__main__.py"))

from sess.relay import main

main()
