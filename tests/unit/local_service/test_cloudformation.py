"""CloudFormation's short tags and intrinsic functions."""

from __future__ import annotations

from typing import Any

import pytest

from local.lambda_service.cloudformation import Resolver, TemplateError, Unresolved, parse_yaml

TEMPLATE = """
Mappings:
  Sizes:
    small: {memory: 128}
Conditions:
  Same: !Equals [a, a]
  Other: !Equals [!Ref Name, other]
  Both: !And [!Condition Same, !Condition Other]
  Either: !Or [!Condition Same, !Condition Other]
  Neither: !Not [!Condition Either]
Resources:
  Thing: {Type: Some::Type}
"""


def resolve(text: str) -> Any:
    template = parse_yaml(f"{TEMPLATE}\nValue:\n  {text}")
    known = {("Thing", None): "thing-1", ("Thing", "Arn"): "arn:thing-1"}
    parameters = {"Name": "store", "Count": "3", "Zones": ["a", "b"], "AWS::Region": "eu-central-1"}
    return Resolver(template, parameters, lambda name, attribute: known.get((name, attribute))).resolve(
        template["Value"]
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain", "plain"),
        ("!Ref Name", "store"),
        ("!Ref Thing", "thing-1"),
        ("{Ref: Name}", "store"),
        ("!GetAtt Thing.Arn", "arn:thing-1"),
        ("{'Fn::GetAtt': [Thing, Arn]}", "arn:thing-1"),
        ("!Sub '${Name}-${AWS::Region}-${Thing}-${Thing.Arn}'", "store-eu-central-1-thing-1-arn:thing-1"),
        ("!Sub ['${x}/${Name}', {x: !Ref Count}]", "3/store"),
        ("!Sub '${!Name}'", "${Name}"),
        ("!Join ['-', [a, !Ref Name, !Ref Count]]", "a-store-3"),
        ("!Join [',', !Ref Zones]", "a,b"),
        ("!Select [1, !Ref Zones]", "b"),
        ("!Select ['0', !Split ['.', 'x.y']]", "x"),
        ("!FindInMap [Sizes, small, memory]", 128),
        ("!If [Same, 1, 2]", 1),
        ("!If [Other, 1, 2]", 2),
        ("!If [Both, both, !If [Either, either, neither]]", "either"),
        ("!If [Neither, 1, 2]", 2),
        ("{list: [!Ref Name, 2], nested: {name: !Ref Name}}", {"list": ["store", 2], "nested": {"name": "store"}}),
    ],
)
def test_intrinsic_functions_evaluate(text: str, expected: object) -> None:
    assert resolve(text) == expected


@pytest.mark.parametrize(
    ("text", "expression"),
    [
        ("!Ref Nobody", "Ref Nobody"),
        ("!GetAtt Thing.Endpoint.Address", "GetAtt Thing.Endpoint.Address"),
        ("!Sub 'a-${Nobody}'", "Ref Nobody"),
        ("!Sub '${Thing.Port}'", "GetAtt Thing.Port"),
        ("!Join ['-', [a, !Ref Nobody]]", "Ref Nobody"),
        ("!ImportValue other-stack", "Fn::ImportValue"),
        ("!FindInMap [Sizes, large, memory]", "FindInMap Sizes"),
    ],
)
def test_what_only_a_deployed_stack_knows_stays_unresolved(text: str, expression: str) -> None:
    assert resolve(text) == Unresolved(expression)


def test_no_value_removes_its_property() -> None:
    template = parse_yaml("Resources: {}\nValue: {a: !Ref 'AWS::NoValue', b: [1, !Ref 'AWS::NoValue']}")
    from local.lambda_service.cloudformation import NO_VALUE

    resolver = Resolver(template, {"AWS::NoValue": NO_VALUE}, lambda *_: None)
    assert resolver.resolve(template["Value"]) == {"b": [1]}


def test_an_undeclared_condition_is_an_error() -> None:
    with pytest.raises(TemplateError, match="Maybe"):
        resolve("!If [Maybe, 1, 2]")


@pytest.mark.parametrize("text", ["a: [", "just text", "Resources: [1]", ""])
def test_what_is_no_template_is_refused_in_one_line(text: str) -> None:
    with pytest.raises(TemplateError) as caught:
        parse_yaml(text)
    assert "\n" not in str(caught.value)


def test_tags_cannot_build_python_objects() -> None:
    with pytest.raises(TemplateError):
        parse_yaml("Resources: {a: !!python/object/apply:os.system ['true']}")
