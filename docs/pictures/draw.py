"""Draws the picture that the README and the front page lead with: `python docs/pictures/draw.py`.

Made-up commuters by where they live, counted with fixed noise, so that the picture is the same each time.
"""

from pathlib import Path

from tallytree.datasets.commutes import commutes

import tallytree as tt
from tallytree._charts import svg

data = commutes()
levels = ["region", "province", "municipality"]
towns = tt.Hierarchy.from_table(data.municipalities, levels=levels)
homes = data.commutes.select([f"origin_{level}" for level in levels]).rename_columns(levels)
release = tt.release_counts(homes, towns, tt.Budget(epsilon=0.1), neighboring="add_remove", seed=2026)
Path(__file__).with_name("lead.svg").write_text(svg(release.plot.tree()) + "\n", encoding="utf-8")
