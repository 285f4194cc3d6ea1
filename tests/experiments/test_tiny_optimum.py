import sys

from madbayes.experiments import tiny_optimum


def test_a_line_for_each_algorithm(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["tiny_optimum", "--tables", "2", "--restarts", "3"])
    tiny_optimum.main()
    first, *lines = capsys.readouterr().out.splitlines()
    assert first == "best of 3 restarts, penalty 20% of the one-group squared error"
    assert [line.split()[0] for line in lines] == ["dp", "collapsed_dp", "bp", "collapsed_bp"]
    assert all(float(line.split()[-1]) >= 1 for line in lines)  # no restart is below the enumerated optimum
