import sys

from tpusim_capture.command import main

sys.exit(main())
