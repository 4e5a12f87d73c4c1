"""What may be a tag, and how any label becomes one."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from spot_sdk.knowledge_tags import MAX_TAG_LENGTH, WELL_KNOWN_TAGS, KnowledgeTag, is_tag, to_tag
from spot_sdk.tag_expression import TagExpression, parse


@pytest.mark.parametrize(
    ("label", "tag"),
    [
        ("R&D", "r_and_d"),
        ("R & D", "r_and_d"),
        ("C++", "c_plus_plus"),
        ("C#", "c_sharp"),
        ("C", "c"),
        ("a+b", "a_plus_b"),
        ("Human Resources", "human_resources"),
        ("  Finance / Accounting (EMEA)  ", "finance_accounting_emea"),
        ("50%", "50_percent"),
        ("acme:Jira-Issue", "acme:jira-issue"),
        ("Qualität", "qualität"),
        ("Qualita\u0308t", "qualität"),
        ("Ｆｕｌｌ", "full"),
        ("人事部", "人事部"),
        ("हिन्दी", "हिन्दी"),
        ("employee", "employee"),
        ("__a__b__", "a_b"),
        ("x" * 200, "x" * MAX_TAG_LENGTH),
        ("x" * 127 + " y", "x" * 127),
    ],
)
def test_a_label_becomes_its_tag(label: str, tag: str):
    assert to_tag(label) == tag


@pytest.mark.parametrize("label", ["", " ", "---"[:0], "!?", "___", "\u200b", "\0"])
def test_a_label_of_nothing_that_may_stand_in_a_tag_is_refused(label: str):
    with pytest.raises(ValueError, match="no tag can be made of"):
        to_tag(label)


@given(st.text(max_size=300))
@example("x" * 127 + "_\u0301")
@example("x" * 127 + "e\u0301")
@example("x" * 126 + "İ")
@example("\u0345")
@settings(max_examples=500)
def test_what_to_tag_makes_is_a_tag_and_stays_itself(label: str):
    try:
        tag = to_tag(label)
    except ValueError:
        return
    assert is_tag(tag)
    assert to_tag(tag) == tag


@given(st.text(max_size=40))
def test_spelling_does_not_matter(label: str):
    """Composed, decomposed or in blanks: one label, one tag."""

    def tag_or_none(text: str) -> str | None:
        try:
            return to_tag(text)
        except ValueError:
            return None

    expected = tag_or_none(label)
    assert tag_or_none(unicodedata.normalize("NFD", label)) == expected
    assert tag_or_none(unicodedata.normalize("NFC", label)) == expected
    assert tag_or_none(f"  {label}\t") == expected


@given(st.text(max_size=20))
def test_a_tag_is_exactly_what_an_expression_can_ask_for(text: str):
    """One rule at write and in queries: nothing is stored that cannot be asked for."""
    if is_tag(text):
        assert parse(text) == TagExpression(((text,),))


@pytest.mark.parametrize("text", ["", "a b", "a+b", "a|b", "r&d", "a" * 129, "a\u0301", "a\n", "a.b", "\ud800"])
def test_what_is_no_tag(text: str):
    assert not is_tag(text)


def test_the_well_known_are_tags_and_made_of_themselves():
    assert len(WELL_KNOWN_TAGS) >= 14
    assert KnowledgeTag.WIKI_PAGE in WELL_KNOWN_TAGS
    assert [to_tag(tag) for tag in WELL_KNOWN_TAGS] == list(WELL_KNOWN_TAGS)
