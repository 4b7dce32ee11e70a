"""All number formats at once: each layer takes its own."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import ClassVar

from mase_hw._kinds import Record, Table
from mase_hw.experiments._base import Experiment, Outcome, Progress
from mase_hw.experiments._figures import new_figure
from mase_hw.experiments._formats import entry
from mase_hw.experiments._subject import Subject, layer_entries, steps
from mase_hw.experiments.mixed_precision import linear_layers
from mase_hw.formats import formats
from mase_hw.training import standard_error


class LayerFormats(Experiment):
    """Formats and widths by layer of BERT-tiny by TPE, quantised without training."""

    name = "layer-formats"
    title = "all formats in one search: which layer takes which"
    settings: ClassVar[Table] = {"trials": 200, "validation": 500, "best": 10}
    quick: ClassVar[Table] = {"trials": 40, "validation": 300}

    def run(self, folder: Path, size: Table, progress: Progress) -> Outcome:
        subject = Subject.load("bert-tiny", validation=size["validation"], seed=self.seed)
        advance = steps(progress, size["trials"])
        names = list(formats())
        space = linear_layers(entry(names))
        config: Record = {"trials": size["trials"], "sampler": "tpe", "space": space}
        found = subject.search(config, folder / "search", advance)
        best = found.result.best[0]
        taken = layer_entries(best.config)
        counts = Counter(
            (layer, number_format)
            for configuration in found.configurations(size["best"])
            for layer, (number_format, _) in layer_entries(configuration).items()
        )
        rows = [
            (
                layer,
                number_format,
                fields("data_in"),
                fields("weight"),
                counts[layer, number_format],
            )
            for layer, (number_format, fields) in taken.items()
        ]
        figure, (axes,) = new_figure()
        figure.set_figheight(1.4 * figure.get_figheight())
        shares = [[counts[layer, name] for name in names] for layer in taken]
        image = axes.imshow(shares, aspect="auto", cmap="Blues")
        figure.colorbar(image, ax=axes, label=f"of the {size['best']} best trials")
        chosen = [names.index(row[1]) for row in rows]
        axes.plot(chosen, range(len(rows)), "r.", label="best trial")
        axes.set_xticks(range(len(names)), names, rotation=90)
        axes.set_yticks(range(len(rows)), [row[0] for row in rows])
        axes.legend(loc="lower left", bbox_to_anchor=(0, 1))
        accuracy = best.metrics["accuracy"]
        error = standard_error(accuracy, size["validation"])
        note = (
            f"{subject.name}, not trained again: best {100 * accuracy:.1f} % in trial "
            f"{best.number + 1} at {best.metrics['average_bits']:.1f} bits a weight, standard "
            f"error {100 * error:.1f} points; the last column counts the format in the best trials"
        )
        columns = ("layer", "format", "data width", "weight width", f"of {size['best']}")
        return Outcome(columns, rows, figure, note)
