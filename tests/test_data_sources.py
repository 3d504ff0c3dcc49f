"""Pictures, Zarr, archives of arrays, Arrow and JSON lines from Python: each row once, with its values and its label, in the order of the seed.

Small files of every source with the same rows: the number of a row, from which its other values and its label follow.
"""

import gzip
import json
import zlib
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
from brimful import data
from data_sources import picture

ROWS, CLASSES, FILES = 900, 3, 3
BATCH = 64
COLUMNS = ["place", "half", "negative"]


def values(places):
    """What rows hold besides their label: each number follows from the row's number."""
    places = np.asarray(places, "float64")
    return np.stack([places, places / 2, -places], axis=1).astype("float32")


def labels(places):
    """The labels of rows."""
    return np.asarray(places) % CLASSES


@dataclass(frozen=True)
class Source:
    """What to open, with which settings, and the order of its rows in the files."""

    paths: list
    format: str
    order: list = field(default_factory=lambda: [*range(ROWS)])
    settings: dict = field(default_factory=lambda: {"columns": COLUMNS, "labels": "label"})

    def open(self, **more):
        return data.open(self.paths, **{**self.settings, **more})


def parts():
    """The numbers of the rows of each file."""
    return np.array_split(np.arange(ROWS), FILES)


def _json_lines(places):
    objects = ({"place": int(row), "half": row / 2, "label": int(row % CLASSES), "negative": -int(row)} for row in places)
    # Lines long enough for several units; the key is not used.
    return "".join(json.dumps({**one, "more": "é" * 100}, ensure_ascii=False) + "\n" for one in objects).encode()


def jsonl(folder):
    paths = [folder / f"{number}.jsonl" for number in range(FILES)]
    for path, places in zip(paths, parts()):
        path.write_bytes(_json_lines(places))
    return Source([folder / "*.jsonl"], "jsonl")


def jsonl_gz(folder):
    for number, places in enumerate(parts()):
        (folder / f"{number}.jsonl.gz").write_bytes(gzip.compress(_json_lines(places), 1))
    source = jsonl(folder)
    return Source([folder / "*.jsonl.gz"], "jsonl", settings={**source.settings, "scratch": folder})


def _arrow_table(places):
    import pyarrow as pa

    return pa.table({**dict(zip(COLUMNS, values(places).T)), "label": labels(places)})


def arrow_file(folder):
    """Feather: compressed, several record batches in a file."""
    import pyarrow.feather

    for number, places in enumerate(parts()):
        pyarrow.feather.write_feather(_arrow_table(places), folder / f"{number}.feather", compression="lz4", chunksize=100)
    return Source([folder / "*.feather"], "arrow")


def arrow_stream(folder):
    import pyarrow as pa

    for number, places in enumerate(parts()):
        table = _arrow_table(places)
        with pa.OSFile(str(folder / f"{number}.arrows"), "wb") as file, pa.ipc.new_stream(file, table.schema) as writer:
            writer.write_table(table, max_chunksize=70)
    return Source([folder / "*.arrows"], "arrow")


ARRAYS = {"keys": ["x", "label"], "columns": ["x"], "labels": "label"}


def npz(folder, save=np.savez):
    for number, places in enumerate(parts()):
        save(folder / f"{number}.npz", x=values(places), label=labels(places), unused=np.zeros(len(places)))
    return Source([folder / "*.npz"], "npz", settings=ARRAYS)


def npz_packed(folder):
    source = npz(folder, np.savez_compressed)
    return Source(source.paths, "npz", settings={**ARRAYS, "scratch": folder})


def _chunks(array, rows):
    """Pieces of an array, the last one filled up."""
    for number, first in enumerate(range(0, len(array), rows)):
        piece = array[first : first + rows]
        yield number, np.pad(piece, [(0, rows - len(piece))] + [(0, 0)] * (array.ndim - 1))


def zarr_v2(folder):
    """A group of two arrays; compressed by zlib, other chunks in each."""
    place = folder / "v2.zarr"
    place.mkdir()
    (place / ".zgroup").write_text('{"zarr_format": 2}')
    for name, array, rows in (("x", values(range(ROWS)), 64), ("label", labels(range(ROWS)).astype("<i4"), 100)):
        (place / name).mkdir()
        about = {"zarr_format": 2, "shape": array.shape, "chunks": [rows, *array.shape[1:]], "dtype": array.dtype.str, "order": "C"}
        (place / name / ".zarray").write_text(
            json.dumps({**about, "filters": None, "fill_value": 0, "compressor": {"id": "zlib", "level": 1}})
        )
        for number, piece in _chunks(array, rows):
            (place / name / ".".join([str(number)] + ["0"] * (array.ndim - 1))).write_bytes(zlib.compress(piece.tobytes(), 1))
    return Source([place], "zarr", settings=ARRAYS)


def zarr_v3(folder):
    """The same in the third version; compressed by gzip."""
    place = folder / "v3.zarr"
    place.mkdir()
    (place / "zarr.json").write_text('{"zarr_format": 3, "node_type": "group", "attributes": {}}')
    codecs = [{"name": "bytes", "configuration": {"endian": "little"}}, {"name": "gzip", "configuration": {"level": 1}}]
    for name, array, rows in (("x", values(range(ROWS)), 64), ("label", labels(range(ROWS)).astype("<i4"), 100)):
        grid = {"name": "regular", "configuration": {"chunk_shape": [rows, *array.shape[1:]]}}
        keys = {"name": "default", "configuration": {"separator": "/"}}
        about = {"zarr_format": 3, "node_type": "array", "shape": array.shape, "data_type": array.dtype.name, "chunk_grid": grid}
        about |= {"chunk_key_encoding": keys, "fill_value": 0, "codecs": codecs, "attributes": {}}
        (place / name).mkdir()
        (place / name / "zarr.json").write_text(json.dumps(about))
        for number, piece in _chunks(array, rows):
            chunk = place / name / "/".join(["c", str(number)] + ["0"] * (array.ndim - 1))
            chunk.parent.mkdir(parents=True, exist_ok=True)
            chunk.write_bytes(gzip.compress(piece.tobytes(), 1))
    return Source([place], "zarr", settings=ARRAYS)


def _pictures(folder, end, write):
    """A folder for each class: rows come class by class."""
    for row in range(ROWS):
        place = folder / "abc"[row % CLASSES]
        place.mkdir(exist_ok=True)
        write(place / f"{row:04d}.{end}", row)
    return Source([folder], "images", sorted(range(ROWS), key=lambda row: (row % CLASSES, row)), {})


def png(folder):
    return _pictures(folder, "png", lambda path, row: path.write_bytes(picture(row)))


def jpeg(folder):
    """The number in steps of eight: what JPEG loses does not matter. Never without red."""
    from PIL import Image

    def write(path, row):
        Image.new("RGB", (8, 8), (8 * (row % 30 + 1), 8 * (row // 30), 128)).save(path, quality=95, subsampling=0)

    return _pictures(folder, "jpg", write)


MAKERS = {made.__name__: made for made in (jsonl, jsonl_gz, arrow_file, arrow_stream, npz, npz_packed, zarr_v2, zarr_v3, png, jpeg)}


@pytest.fixture(scope="module", params=MAKERS)
def source(request, tmp_path_factory):
    if request.param == "jpeg":
        pytest.importorskip("PIL")
    if request.param.startswith("arrow"):
        pytest.importorskip("pyarrow")
    return MAKERS[request.param](tmp_path_factory.mktemp(request.param))


def places_of(x):
    """The numbers of the rows of a batch."""
    if x.ndim == 2:
        return x[:, 0].astype(int)
    assert (np.abs(x.astype(int) - x[:, :1, :1]) <= 1).all(), "a picture has two colours"
    red, green, blue = x[:, 0, 0, :].astype(int).T
    # Only JPEG's have any red: a PNG's has the highest byte of the number.
    return np.round(red / 8).astype(int) - 1 + 30 * np.round(green / 8).astype(int) if red.min() > 4 else green << 8 | blue


def seen(loader):
    """The numbers of all rows of an epoch; each row is checked against its number."""
    all_places = []
    for x, y in loader:
        places = places_of(x)
        assert y.tolist() == labels(places).tolist()
        if x.ndim == 2:
            assert (x == values(places)).all()
        all_places.append(places)
        del x, y
    return np.concatenate(all_places).tolist()


def test_each_row_comes_with_its_values_and_its_label(source):
    ds = source.open()
    assert (ds.rows, ds.format) == (ROWS, source.format)
    loader = ds.batches(BATCH, memory="16MiB")
    assert seen(loader) == source.order
    assert loader.stats().rows == ROWS and loader.stats().bad_rows == 0
    assert ds.classes == (["a", "b", "c"] if source.format == "images" else [])


@pytest.mark.parametrize("shuffle", ["window", "block", "global"])
def test_the_order_is_the_seed_s_on_any_number_of_threads(source, shuffle):
    def loader(**options):
        return source.open().batches(BATCH, memory="64MiB", shuffle=shuffle, **{"seed": 5, **options})

    one, eight = loader(threads=1), loader(threads=8)
    assert (one.plan.threads, eight.plan.threads) == (1, 8)
    first, second = seen(one), seen(one)
    assert sorted(first) == sorted(second) == [*range(ROWS)]
    assert first != source.order and first != second
    assert (seen(eight), seen(eight)) == (first, second)
    assert seen(loader(seed=6)) != first


@pytest.mark.parametrize("shuffle", ["none", "block", "global"])
def test_an_epoch_goes_on_where_it_was_left(source, shuffle):
    def loader():
        return source.open().batches(BATCH, memory="16MiB", shuffle=shuffle, seed=9)

    whole = seen(loader())
    for taken in (1, 6, ROWS // BATCH):
        left = loader()
        for number, batch in enumerate(left, 1):
            del batch
            if number == taken:
                break
        state = json.loads(json.dumps(left.state()))
        other = loader()
        other.resume(state)
        assert seen(other) == whole[taken * BATCH :]


def read(ds, bad_rows):
    """All values, and what was bad."""
    loader = ds.batches(BATCH, memory="16MiB", bad_rows=bad_rows)
    found = np.concatenate([batch[0].copy() for batch in loader])
    return found, loader.stats()


def test_json_lines_that_are_bad(tmp_path):
    lines = _json_lines(range(ROWS)).splitlines(keepends=True)
    lines[10] = b'{"place": 10, "half": 5.0, "label": 1\n'
    lines[700] = b'{"place": 700, "half": "much", "label": 1, "negative": -700}\n'
    (tmp_path / "bad.jsonl").write_bytes(b"".join(lines))
    ds = data.open(tmp_path / "bad.jsonl", columns=COLUMNS, labels="label", types={"half": "float64"})
    with pytest.raises(data.DataError, match=r"bad\.jsonl, line 11: this is no JSON object"):
        read(ds, "fail")
    kept, stats = read(ds, "skip")
    assert kept[:, 0].astype(int).tolist() == [row for row in range(ROWS) if row not in (10, 700)]
    assert stats.bad_rows == 2 and "line 11" in str(stats) and "line 701" in str(stats)
    whole, stats = read(ds, "null")
    assert len(whole) == ROWS and stats.bad_rows == 2
    assert np.isnan(whole[700]).tolist() == [False, True, False]


def test_arrow_values_that_are_missing(tmp_path):
    pa = pytest.importorskip("pyarrow")
    table = _arrow_table(np.arange(ROWS))
    gaps = pa.array([None if row in (3, 500) else int(row % CLASSES) for row in range(ROWS)])
    table = table.set_column(table.column_names.index("label"), "label", gaps)
    with pa.OSFile(str(tmp_path / "gaps.arrow"), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table, max_chunksize=100)
    ds = data.open(tmp_path / "gaps.arrow", columns=COLUMNS, labels="label")
    with pytest.raises(data.DataError, match=r"gaps\.arrow, row 3: column 'label' has no value"):
        read(ds, "fail")
    kept, stats = read(ds, "skip")
    assert kept[:, 0].astype(int).tolist() == [row for row in range(ROWS) if row not in (3, 500)]
    assert stats.bad_rows == 2 and "row 500" in str(stats)
    whole, stats = read(ds, "null")
    assert (whole == values(range(ROWS))).all() and stats.bad_rows == 2
    # As floats the gaps have a value of their own: nothing is bad.
    floats = data.open(tmp_path / "gaps.arrow", columns=["label"], dtype="float32").batches(ROWS, memory="16MiB")
    assert np.flatnonzero(np.isnan(next(iter(floats))[:, 0])).tolist() == [3, 500] and floats.stats().bad_rows == 0


def test_pictures_that_cannot_be_decoded(tmp_path):
    source = png(tmp_path)
    cut, other = tmp_path / "a" / "0300.png", tmp_path / "b" / "0001.png"
    cut.write_bytes(cut.read_bytes()[:50])
    other.write_bytes(b"no picture at all, but long enough to be looked at")
    (tmp_path / "c" / "notes.txt").write_text("not a picture by its name either: left alone")
    ds = source.open(image_size=8)
    with pytest.raises(data.DataError, match=r"a/0300\.png: the PNG cannot be decoded"):
        read(ds, "fail")
    kept, stats = read(ds, "skip")
    assert places_of(kept).tolist() == [row for row in source.order if row not in (300, 1)]
    assert stats.bad_rows == 2 and "0300.png" in str(stats) and "0001.png" in str(stats)
    whole, stats = read(ds, "null")
    assert len(whole) == ROWS and stats.bad_rows == 2
    assert (whole[source.order.index(300)] == 0).all() and (whole[source.order.index(1)] == 0).all()


@pytest.mark.parametrize("made", [zarr_v2, zarr_v3])
def test_chunks_that_are_damaged_or_not_there(tmp_path, made):
    source = made(tmp_path)
    chunk = Path(source.paths[0]) / "x" / ("2.0" if made is zarr_v2 else "c/2/0")
    whole = chunk.read_bytes()
    chunk.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(data.DataError, match=str(chunk)):
        seen(source.open().batches(BATCH, memory="16MiB"))
    # A chunk that was never written holds the fill value.
    chunk.unlink()
    found, stats = read(source.open(), "fail")
    assert (found[128:192] == 0).all() and (
        np.delete(found, slice(128, 192), 0) == np.delete(values(range(ROWS)), slice(128, 192), 0)
    ).all()
    assert stats.bad_rows == 0


def test_archives_that_are_cut_or_uneven(tmp_path):
    np.savez(tmp_path / "uneven.npz", x=np.zeros((5, 2)), label=np.zeros(4))
    with pytest.raises(data.DataError, match="rows"):
        data.open(tmp_path / "uneven.npz", labels="label")
    npz(tmp_path)
    whole = (tmp_path / "1.npz").read_bytes()
    (tmp_path / "1.npz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(data.DataError, match=r"1\.npz"):
        data.open(tmp_path / "[0-2].npz", **ARRAYS)


def test_pictures_stand_upright_as_pillow_turns_them(tmp_path):
    image = pytest.importorskip("PIL.Image")
    from PIL import ImageOps

    slopes = np.stack([*np.meshgrid(np.linspace(0, 255, 40), np.linspace(0, 255, 24)), np.full((24, 40), 99.0)], axis=2)
    for orientation in range(1, 9):
        exif = image.Exif()
        exif[0x0112] = orientation
        path = tmp_path / f"{orientation}.jpg"
        image.fromarray(slopes.astype("uint8")).save(path, quality=95, subsampling=0, exif=exif)
        seen_so = np.asarray(ImageOps.exif_transpose(image.open(path))).astype(int)
        ds = data.open(path)
        assert ds.types["image"] == f"uint8{[*seen_so.shape]}"
        found = next(iter(ds.batches(1, memory="16MiB")))[0].astype(int)
        assert np.abs(found - seen_so).max() <= 3, orientation
        turned = [note for note in ds.plan(1, memory="16MiB").notes if "turned upright" in note]
        assert len(turned) == (orientation > 1)
    # All of one size, by Pillow's own resizing.
    ds = data.open(tmp_path / "*.jpg", image_size=(12, 10))
    assert "7 of the 8 pictures are turned upright, as their EXIF says" in ds.plan(8, memory="16MiB").notes
    for found, path in zip(next(iter(ds.batches(8, memory="16MiB"))), sorted(tmp_path.glob("*.jpg"))):
        seen_so = ImageOps.exif_transpose(image.open(path)).resize((10, 12), image.Resampling.BILINEAR)
        assert np.abs(found.astype(int) - np.asarray(seen_so).astype(int)).max() <= 3, path.name
