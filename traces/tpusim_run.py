"""Reads a results file of tpusim (`tpusim run ... -o RUN.h5`) into pandas.

    import tpusim_run
    run = tpusim_run.load("RUN.h5")
    run["steps"], run["ops"], run["events/waits"]      # DataFrames, by table
    run.attributes["workload"], run.clock_mhz          # texts of the file; cycles / clock_mhz are microseconds
    run["cores"].attrs["units"]["hbm_read_bytes"]      # "bytes"; attrs["long_name"]: what a column is

Numbers that stand for a name (`reason`, `unit`, `role`, `source_space`, `destination_space`) are categories of
those names. Needs h5py and pandas; any of their versions since Debian 12 will do. `traces/README.md` has the columns.
"""
import h5py
import pandas


class Run(dict):
    """Tables by name, and what the file says of the run."""

    def __init__(self, attributes):
        super().__init__()
        self.attributes = attributes

    @property
    def clock_mhz(self):
        parameters = self["parameters"].set_index("path")["value"]
        return float(parameters["clock_mhz"])

    def memory_timeline(self):
        """Bytes of HBM that hold data while each op runs; buffers in the place of others count once."""
        buffers = self["buffers"].join(self["lifetimes"].set_index("buffer")).sort_values("granule")
        in_use, end = [0] * len(self["ops"]), [0] * len(self["ops"])
        for row in buffers.itertuples():
            begin, stop = row.granule * 1024, row.granule * 1024 + row.bytes
            for op in range(row.first_op, row.last_op + 1):
                in_use[op] += max(0, stop - max(begin, end[op]))
                end[op] = max(end[op], stop)
        return pandas.Series(in_use, index=self["ops"]["name"])


def _text(value):
    return value.decode() if isinstance(value, bytes) else str(value)


def _frame(dataset):
    table = pandas.DataFrame({name: dataset[name] for name in dataset.dtype.names})
    for name in table.columns[[kind.kind == "S" for kind in (dataset.dtype[c] for c in table.columns)]]:
        table[name] = table[name].str.decode("utf-8")
    for key in ("units", "long_name"):
        texts = [dataset.attrs[f"FIELD_{i}_{key.upper()}"] for i in range(len(dataset.dtype.names))]
        table.attrs[key] = dict(zip(dataset.dtype.names, map(_text, texts)))
    return table


def load(path):
    """All tables of the file."""
    with h5py.File(path, "r") as file:
        run = Run({name: _text(value) for name, value in file.attrs.items()})
        def add(name, item):
            if isinstance(item, h5py.Dataset) and item.dtype.names:
                run[name] = _frame(item)
        file.visititems(add)
    names = {of: rows.set_index("number")["name"] for of, rows in run["enumerations"].groupby("enumeration")}
    columns = {"source_space": "space", "destination_space": "space"}
    for name, table in run.items():
        for column in table.columns.intersection(["reason", "unit", "role", *columns]):
            if name in ("parameters", "enumerations"):
                continue  # Their `unit` is a text.
            of = names[columns.get(column, column)]
            table[column] = pandas.Categorical.from_codes(table[column], categories=list(of))
    return run
