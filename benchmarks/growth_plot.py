"""Pictures of what ``growth.py`` found."""

from calibrant import _drawing as style

WIDTH, HEIGHT = 11.0, 5.2


def draw(entries, what):
    """Seconds over rows and over classes, a line for each method, both axes logarithmic."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import StrMethodFormatter

    figure = Figure(figsize=(WIDTH, HEIGHT), layout="constrained")
    axes = figure.subplots(1, 2, sharey=True)
    methods = list(dict.fromkeys(one["method"] for one in entries))
    lines = {}
    for ax, over in zip(axes, ("rows", "classes"), strict=True):
        for one in entries:
            if one["what"] == what and one["over"] == over and one["sizes"]:
                look = style.look(methods.index(one["method"]))
                (lines[one["method"]],) = ax.plot(
                    one["sizes"],
                    one["seconds"],
                    color=look.color,
                    marker=look.marker,
                    linestyle=look.linestyle,
                    markersize=4,
                    linewidth=1.3,
                )
        ax.set(xscale="log", yscale="log", xlabel=over)
        ax.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
        ax.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
        ax.grid(color="#E5E5E5", linewidth=0.6)
        ax.spines[["top", "right"]].set_visible(False)
        at = "10 classes" if over == "rows" else "5,000 rows"
        ax.set_title(f"{what}, {at}", fontsize=11)
    axes[0].set_ylabel("seconds of the processor")
    named = [method for method in methods if method in lines]
    figure.legend(
        [lines[m] for m in named], named, loc="outside right center", fontsize=9, frameon=False
    )
    return figure
