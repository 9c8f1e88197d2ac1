"""What is taken off the front of a prompt, and what stays its author's."""

import pytest

from craze_shed.craze.prompts import typed

SHELL = '<shell_context>\n<command exit="0">\n$ ls\n</command>\n</shell_context>\n'
IMAGES = (
    '<craze_attachments>{"v":1,"images":[{"n":1,"path":"/a","mime":"image/png","ow":9,"oh":9}]}'
    "</craze_attachments>\n"
)


@pytest.mark.parametrize(
    ("prompt", "left"),
    [
        ("hello", "hello"),
        (IMAGES + "hello", "hello"),
        (IMAGES.rstrip("\n"), ""),  # it may end the prompt
        (SHELL + "\nhello", "hello"),
        (SHELL + "hello", "hello"),
        (SHELL + "\n\nhello", "\nhello"),  # one blank line is the block's
        (IMAGES + SHELL + "\nhello", "hello"),
        (IMAGES + IMAGES + "hello", IMAGES + "hello"),  # one block of a kind
        (SHELL + IMAGES + "hello", IMAGES + "hello"),  # and in this order
    ],
)
def test_leading_blocks_are_stripped(prompt: str, left: str) -> None:
    assert typed(prompt) == left


@pytest.mark.parametrize(
    "document",
    [
        "{}",
        '{"v":null,"images":null}',
        '{"images":[null,{}]}',
        '{"V":1,"Images":[{"N":1,"PATH":"/a","Mime":null}]}',
        '{"v":1,"anything":{"else":[1.5,true]},"images":[{"more":{}}]}',
        ' {"v" : 1} ',
    ],
)
def test_an_attachments_object_of_any_such_form_is_a_block(document: str) -> None:
    assert typed(f"<craze_attachments>{document}</craze_attachments>\nhello") == "hello"


@pytest.mark.parametrize(
    "document",
    [
        "",
        "[]",
        "null",
        "{",
        "{} {}",
        '{"v":1.0}',
        '{"v":true}',
        '{"v":"1"}',
        '{"images":{}}',
        '{"images":[1]}',
        '{"images":[{"n":"1"}]}',
        '{"images":[{"ow":1.5}]}',
        '{"images":[{"path":1}]}',
        '{"images":[{"mime":[]}]}',
        '{"v":NaN}',
        "[" * 100_000,
    ],
)
def test_what_is_no_such_object_stays_the_authors(document: str) -> None:
    prompt = f"<craze_attachments>{document}</craze_attachments>\nhello"
    assert typed(prompt) == prompt


@pytest.mark.parametrize(
    "prompt",
    [
        " " + IMAGES,
        "<craze_attachments>{}</craze_attachments> hello",  # neither a new line nor the end
        "<craze_attachments>{}",
        "<shell_context>\nhello",
        '<shell_context>\n<command exit="0">\nno end',
        '<shell_context> \n<command exit="0">\n</shell_context>\n',
        "hello\n" + SHELL,
    ],
)
def test_what_is_no_block_stays_the_authors(prompt: str) -> None:
    assert typed(prompt) == prompt
