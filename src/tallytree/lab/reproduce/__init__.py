"""The tables, figures and claims of the three papers, measured again beside what was published.

`EXPERIMENTS` has them all; `reproduce` runs one and writes a table, a figure and a page. Experiments use the public
API, as users do. What a paper's authors ran, where that is something else, has a module of its own (`…_as_run`).
"""

from tallytree.lab.reproduce.catalogue import EXPERIMENTS
from tallytree.lab.reproduce.experiment import Experiment, Found, Settings
from tallytree.lab.reproduce.running import Reproduction, reproduce

__all__ = ["EXPERIMENTS", "Experiment", "Found", "Reproduction", "Settings", "reproduce"]
