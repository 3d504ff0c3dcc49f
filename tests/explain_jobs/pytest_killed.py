"""A test whose process the kernel kills; not a test of this project."""


def test_good():
    assert True


def test_hungry():
    kept = []
    while True:
        kept.append(bytearray(b"x" * (16 << 20)))
