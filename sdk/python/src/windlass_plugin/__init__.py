"""Write a Kubernetes operator as one function.

A Windlass plugin is a function from a custom resource and the live objects to the desired state. The host does everything
else: it watches, caches and queues, applies the desired children, deletes the others, writes the status, retries and traces.
With this package the input and the output of the function are dataclasses, and the CustomResourceDefinition comes from them.

Rules:

- The response lists **all** desired children. The host deletes a live child that is missing, unless `Response.keep` has it.
- A call depends on its `Request` alone, and returns the same response for the same request. There is no network, no file, and
  no memory of the last call. Modules are imported when the component is built: an import inside a function finds no file.
- The host sets ownerReferences, namespaces and its labels: leave them out of children.
- The host sets `status.observedGeneration` and the conditions `Reconciling` and `Stalled`, and `Ready` unless the plugin
  sets it: `Plugin.ready_means` says when.
- After a failure or an exception the host writes and deletes no child.

The plugin for a kind `Greeting`, whose objects get a ConfigMap each:

    @dataclass
    class GreetingSpec:
        '''Whom to greet.'''

        name: Annotated[str, Length(min=1)]
        '''The name to greet.'''


    class Greeting(Plugin[GreetingSpec, None]):
        name = "greeting"
        version = "0.1.0"
        parent = CustomResource("example.com", "v1", "Greeting")
        children = [ConfigMap]

        def reconcile(self, request: Request[GreetingSpec, None]) -> Response[None]:
            config_map = ConfigMap(request.name, data={"greeting": f"Hello, {request.spec.name}!"})
            return Response(children=[config_map])

`Plugin` is what to read first, then `Request` and `Response`. `windlass_plugin.testing` calls a plugin in a test,
`windlass_plugin.types` has types that many specs share, and `windlass_plugin.admission` reviews writes. The README has a
whole plugin with its tests, and the table of types that a spec may have.
"""

from . import _host, clock, kinds, log, span
from ._children import (
    Apply,
    Child,
    ChildOptions,
    ChildRule,
    OnDelete,
    Recreate,
    RelatedRule,
    Rolling,
    UpdateStrategy,
)
from ._constraints import (
    Constraint,
    Format,
    Keywords,
    Length,
    ListMap,
    ListSet,
    MultipleOf,
    Pattern,
    Positive,
    Range,
    Rule,
    rfc1035_name,
)
from ._contract import ChildRef, LeftOut, Readiness
from ._crd import Column, CustomResource
from ._failure import Failed, Failure, Invalid
from ._json import Name, checksum
from ._plugin import Existing, Metric, ParentSelector, Plugin
from ._quantity import Quantity
from ._request import Metadata, Object, Request
from ._response import Event, Requirement, Response
from ._rollout import Rollout
from ._schedule import Due, Schedule
from ._status import Condition, Phase
from .kinds import Kind
from .span import measure


def random_bytes(count: int) -> bytes:
    """Return `count` random bytes from the host, at most 1 MiB: the call fails if it asks for more at once.

    They are secret, so fit for a generated password, and the same for the same request as long as the Secret
    `windlass-rng-key` in the host's namespace exists. Another request gets other bytes: keep a generated value in a child.
    In a test they are the same in every call.
    """
    return _host.current.random_bytes(count)


__all__ = [
    "Apply",
    "Child",
    "ChildOptions",
    "ChildRef",
    "ChildRule",
    "Column",
    "Condition",
    "Constraint",
    "CustomResource",
    "Due",
    "Event",
    "Existing",
    "Failed",
    "Failure",
    "Format",
    "Invalid",
    "Keywords",
    "Kind",
    "LeftOut",
    "Length",
    "ListMap",
    "ListSet",
    "Metadata",
    "Metric",
    "MultipleOf",
    "Name",
    "Object",
    "OnDelete",
    "ParentSelector",
    "Pattern",
    "Phase",
    "Plugin",
    "Positive",
    "Quantity",
    "Range",
    "Readiness",
    "Recreate",
    "RelatedRule",
    "Request",
    "Requirement",
    "Response",
    "Rolling",
    "Rollout",
    "Rule",
    "Schedule",
    "UpdateStrategy",
    "checksum",
    "clock",
    "kinds",
    "log",
    "measure",
    "random_bytes",
    "rfc1035_name",
    "span",
]
