from tallytree.pipeline.progress import level_progress, step_progress


def test_progress_is_drawn_on_standard_error_only_where_asked_for(capfd):
    for shown in (False, True):
        with level_progress(shown, ["state", "county"]) as begin:
            begin("state")
            begin("county")
            begin("county")
        out, error = capfd.readouterr()
        assert out == ""
        assert bool(error) is shown


def test_steps_are_drawn_on_standard_error_only_where_asked_for(capfd):
    for shown in (False, True):
        with step_progress(shown, 2, "replicates") as done:
            done()
            done()
        out, error = capfd.readouterr()
        assert out == ""
        assert bool(error) is shown
