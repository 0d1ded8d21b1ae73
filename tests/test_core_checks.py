"What `versions/core_checks.py` checks in every environment, in this one."
import importlib.util
from pathlib import Path
import pytest

spec = importlib.util.spec_from_file_location('core_checks', Path(__file__).parent/'versions'/'core_checks.py')
core_checks = importlib.util.module_from_spec(spec); spec.loader.exec_module(core_checks)

@pytest.mark.parametrize('name', core_checks.CHECKS)
def test_core(name): core_checks.CHECKS[name]()
