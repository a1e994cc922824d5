"""{{kind}}: writes a message into a ConfigMap."""

from dataclasses import dataclass
from typing import Annotated

from windlass_plugin import Column, CustomResource, Invalid, Length, Plugin, Request, Response
from windlass_plugin.kinds import ConfigMap


@dataclass
class {{kind}}Spec:
    """The desired message."""

    message: Annotated[str, Length(1, 1000)]
    """The text of the ConfigMap; one line."""


@dataclass
class {{kind}}Status:
    """The observed state."""

    is_written: bool
    """Whether the ConfigMap exists."""


class {{kind}}(Plugin[{{kind}}Spec, {{kind}}Status]):
    """The operator."""

    name = "{{name}}"
    version = "0.1.0"
    description = "Writes a message into a ConfigMap"
    parent = CustomResource("{{group}}", "v1", "{{kind}}", columns=[Column("Message", ".spec.message")])
    children = [ConfigMap]

    def reconcile(self, request: Request[{{kind}}Spec, {{kind}}Status]) -> Response[{{kind}}Status]:
        """Return the ConfigMap that should exist, and whether it does."""
        message = request.spec.message
        if "\n" in message:
            raise Invalid("spec.message", "must be one line")
        config_map = ConfigMap(request.name, data={"message": message})
        is_written = request.child(ConfigMap, request.name) is not None
        return Response(children=[config_map], status={{kind}}Status(is_written))
