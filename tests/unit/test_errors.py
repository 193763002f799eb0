import inspect
import pickle

import pytest

from warmroute import errors

CLASSES = [
    cls for _, cls in inspect.getmembers(errors, inspect.isclass) if issubclass(cls, errors.WarmrouteError)
]


@pytest.mark.parametrize("cls", CLASSES)
def test_every_class_is_documented_and_maps_to_openai_error_types(cls: type[errors.WarmrouteError]) -> None:
    assert cls.__doc__
    assert cls.error_type in {"invalid_request_error", "rate_limit_error", "server_error"}
    assert (cls.http_status is None) or 400 <= cls.http_status <= 599


def test_the_caller_s_faults_are_4xx_and_nobody_retries_them() -> None:
    callers = [cls for cls in CLASSES if issubclass(cls, errors.RequestError)]
    assert {cls.http_status for cls in callers} == {400, 401, 403, 404, 409, 413}
    assert {cls.try_elsewhere for cls in callers} == {"no"}


def test_only_a_worker_s_fault_may_be_tried_elsewhere() -> None:
    elsewhere = {cls for cls in CLASSES if cls.try_elsewhere == "before_first_byte"}
    assert elsewhere == {cls for cls in CLASSES if issubclass(cls, errors.WorkerError)}


def test_config_error_names_key_value_range_and_source() -> None:
    error = errors.ConfigError("block_size", 0, "an integer from 1 to 4096", "--block-size")
    assert str(error) == "block_size = 0 (from --block-size): an integer from 1 to 4096"
    copy = pickle.loads(pickle.dumps(error))
    assert (copy.key, copy.value, copy.allowed, copy.source) == (
        "block_size",
        0,
        "an integer from 1 to 4096",
        "--block-size",
    )
