"""The project that `run` and `report` are tried on."""

import sys

import pytest

from .project import MODULE, invoke, write_project


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """A project's folder, where commands are run."""
    folder = tmp_path_factory.mktemp("project")
    write_project(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr(sys, "path", list(sys.path))
        yield folder
    sys.modules.pop(MODULE, None)


@pytest.fixture(scope="module")
def done(project):
    """What `consilience run` said; the run is in runs/small."""
    return invoke("run", "small.toml")
