"""A web application: a Deployment, a Service and, for a host name, an Ingress."""

from datetime import timedelta

from windlass_plugin import Column, CustomResource, Event, Plugin, Request, Response, rfc1035_name
from windlass_plugin.admission import Admission, AdmissionRequest, Allow, Deny, AdmissionResponse
from windlass_plugin.kinds import Deployment, Ingress, Service

from . import children as desired
from .spec import MyAppSpec
from .status import MyAppStatus


class MyApp(Plugin[MyAppSpec, MyAppStatus], Admission[MyAppSpec]):
    """The operator."""

    name = "myapp"
    version = "0.1.0"
    description = "Runs a web application, with its Service and Ingress"
    parent = CustomResource(
        "example.com",
        "v1",
        "MyApp",
        short_names=["ma"],
        columns=[Column("Phase", ".status.phase"), Column("Replicas", ".status.replicas")],
        # The Service has the same name.
        rules=[rfc1035_name(63)],
    )
    children = [Deployment, Service, Ingress]
    finalizes = True
    resync = timedelta(minutes=1)

    def reconcile(self, request: Request[MyAppSpec, MyAppStatus]) -> Response[MyAppStatus]:
        """Return the desired children, and the status from the live Deployment."""
        if request.is_finalizing:
            return self.clean_up(request)
        request.spec.check()
        status = MyAppStatus.of(request)
        children = [desired.deployment(request), desired.service(request), desired.ingress(request)]
        response = Response(children=children, status=status)
        return response.with_phase(request, status.message, time_field="last_update_time")

    def clean_up(self, request: Request[MyAppSpec, MyAppStatus]) -> Response[MyAppStatus]:
        """Clean up outside the cluster: a DNS record, for example.

        MyApp has nothing there, and only emits an event. The response has no children, so the host deletes the live ones.
        """
        message = f"Nothing of {request.name} is left outside the cluster"
        return Response(events=[Event.normal("CleanedUp", message)], finalized=True)

    def review(self, request: AdmissionRequest[MyAppSpec]) -> AdmissionResponse:
        """Validate a write, and set the defaults, for a host that serves admission; no host does yet."""
        if request.is_being_deleted:
            return Allow()
        if request.object is None:
            return Deny("the request has no object")
        request.spec.check()
        return request.with_defaults()
