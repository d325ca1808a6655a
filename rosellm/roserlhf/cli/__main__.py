"""`python -m rosellm.roserlhf.cli`: the command line where the console script is not on the path."""

from rosellm.roserlhf.cli import main

raise SystemExit(main())
