"""What a program may rely on."""

import subprocess
import sys

import craze.client


def test_the_public_names() -> None:
    assert craze.client.__all__ == [
        "Aside",
        "Attachment",
        "Client",
        "ClientError",
        "ConnectionLost",
        "Cursor",
        "Identity",
        "Limits",
        "Notification",
        "OutcomeUnknown",
        "Program",
        "Refused",
        "Roster",
        "dial",
        "splice",
    ]
    for name in craze.client.__all__:
        thing = getattr(craze.client, name)
        assert thing.__name__ == name
        assert thing.__doc__
    assert sorted(craze.client._HOMES) == craze.client.__all__


def test_the_package_alone_imports_next_to_nothing() -> None:
    heavy = ["gevent", "ujson", "tenacity", "craze.client.client"]
    loaded = f"import sys, craze.client; print([m for m in sys.modules if m in {heavy}])"
    shown = subprocess.run([sys.executable, "-c", loaded], capture_output=True, text=True)
    assert shown.stdout == "[]\n", shown.stderr


def test_a_client_that_runs_no_command_does_not_pay_for_retrying_them() -> None:
    loaded = "import sys; from craze.client import Client; print('tenacity' in sys.modules)"
    shown = subprocess.run([sys.executable, "-c", loaded], capture_output=True, text=True)
    assert shown.stdout == "False\n", shown.stderr
