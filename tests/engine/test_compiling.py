"""Kernels compile with or without a folder for their cache."""

import numba

from madbayes.engine.kernels import compiling


def test_without_a_cache_folder_kernels_compile_in_each_process(monkeypatch):
    """Numba refuses to cache, at decoration, where no folder can be written to."""

    def njit(*, cache=False, **options):
        if cache:
            raise RuntimeError("cannot cache function: no locator available")
        return numba.njit(**options)

    monkeypatch.setattr(compiling, "njit", njit)

    @compiling.compiled(fastmath=compiling.REORDER)
    def double(x):
        return 2 * x

    assert double(21) == 42
    assert double.signatures


def test_kernels_are_cached_where_that_is_possible():
    from madbayes.engine.kernels import squared_distance

    assert squared_distance.targetoptions["nogil"]
    assert squared_distance._cache.cache_path
