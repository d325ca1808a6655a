"""The doctor of environments: `environment + gold, empty, random and hostile answers -> what executes, hangs, raises or pays`."""
