"""The error table as a whole."""

from gateway.errors import ERRORS, ApiError


def test_no_error_is_409_since_the_sdks_retry_it():
    assert 409 not in {kind.status for kind in ERRORS.values()}


def test_no_validation_error_is_422():
    assert 422 not in {kind.status for kind in ERRORS.values()}


def test_what_a_retry_can_cure_says_when():
    for code, kind in ERRORS.items():
        if kind.status == 503:
            assert ApiError(code, "x").headers().get("retry-after"), code


def test_a_code_from_a_newer_worker_is_the_services_failure():
    assert ApiError("invented_tomorrow", "x").kind.status == 500
