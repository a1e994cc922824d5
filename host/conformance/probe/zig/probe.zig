//! What the probe does, by its spec.

const std = @import("std");
const children = @import("children.zig");
const contract = @import("contract.zig");
const bindings = contract.bindings;
const fields = @import("fields.zig");
const host = @import("host.zig");
const json = @import("json.zig");
const kinds = @import("kinds.zig");
const Related = @import("related.zig").Related;
const schedule = @import("schedule.zig");
const time = @import("time.zig");
const memory = contract.memory;
const print = contract.print;
const slice = contract.slice;

/// Why there is no response: `Failed` if the caller's failure says it already.
pub const Error = error{Failed} || json.ParseError;

pub fn respond(request: contract.Request, failure: *contract.Failure) Error!contract.Response {
    // The spec may be invalid while the parent is cleaned up, and is not read.
    if (request.phase.tag == bindings.WINDLASS_PLUGIN_TYPES_PHASE_FINALIZE) {
        return finalize(request, request.phase.val.finalize);
    }
    const parent = try json.parse(request.parent);
    const spec = try readSpec(parent, failure);
    if (spec.fail) |how| {
        if (try fail(how, failure)) |response| return response;
    }
    if (spec.report) report(spec.text orelse "");

    var related = Related{ .request = request };
    try related.require(spec);
    var response: contract.Response = .{};
    const name = json.textAt(parent, &.{ "metadata", "name" }) orelse "";
    const desired = try children.of(name, spec, failure);
    response.children = contract.list(@TypeOf(response.children), desired.items);
    response.requirements = contract.list(@TypeOf(response.requirements), related.requirements.items);
    const status = try statusOf(request, parent, spec, related, failure);
    setStatus(&response, status);
    try surround(&response, spec, failure);
    return response;
}

/// The first ConfigMap stays until it is the last one.
fn finalize(request: contract.Request, finalizing: contract.Finalizing) Error!contract.Response {
    var response: contract.Response = .{};
    var live: usize = 0;
    var first: []const u8 = "";
    for (slice(request.children)) |child| {
        if (!kinds.config_map.is(child.kind)) continue;
        if (live == 0) first = slice(child.name);
        live += 1;
    }
    setStatus(&response, .{
        .live = live,
        .finalizing = true,
        .cause = switch (finalizing.cause) {
            bindings.WINDLASS_PLUGIN_TYPES_FINALIZE_CAUSE_LEFT_SELECTOR => "leftSelector",
            bindings.WINDLASS_PLUGIN_TYPES_FINALIZE_CAUSE_LEFT_NAMESPACES => "leftNamespaces",
            else => "deleted",
        },
        .terminating = if (finalizing.namespace_terminating) true else null,
    });
    if (live > 1) {
        const kept = children.child(children.configMap(first, .{ .kept = "true" }));
        response.children = contract.list(@TypeOf(response.children), &.{kept});
    } else {
        response.finalized = true;
    }
    return response;
}

fn readSpec(parent: json.Value, failure: *contract.Failure) Error!fields.Spec {
    var misfit: json.Misfit = undefined;
    const given = json.at(parent, &.{"spec"}) orelse json.Value{ .object = .empty };
    const spec = json.read(fields.Spec, given, "spec", &misfit) catch |cause| {
        if (cause == error.Misfit) return invalid(failure, misfit.field, misfit.why);
        return error.OutOfMemory;
    };
    return spec;
}

fn readConfig(request: contract.Request, failure: *contract.Failure) Error!fields.Config {
    if (!request.config.is_some) return .{};
    var misfit: json.Misfit = undefined;
    const config = try json.parse(request.config.val);
    return json.read(fields.Config, config, "the Plugin's spec.config", &misfit) catch |cause| {
        if (cause != error.Misfit) return error.OutOfMemory;
        failure.* = contract.failed(print("{s}: {s}", .{ misfit.field, misfit.why }));
        return error.Failed;
    };
}

fn invalid(failure: *contract.Failure, field: []const u8, why: []const u8) error{Failed} {
    failure.* = contract.invalid(field, why);
    return error.Failed;
}

/// Fails or waits as the spec says; returns null if it says something else.
fn fail(how: []const u8, failure: *contract.Failure) error{Failed}!?contract.Response {
    const kind, const message = std.mem.cut(u8, how, ": ") orelse return null;
    if (std.mem.eql(u8, kind, "invalid")) return invalid(failure, "spec.fail", message);
    if (std.mem.eql(u8, kind, "failed")) {
        failure.* = contract.failed(message);
        return error.Failed;
    }
    if (!std.mem.eql(u8, kind, "retry")) return null;
    return .{
        .keep = .{ .tag = bindings.WINDLASS_PLUGIN_TYPES_KEEP_ALL },
        .waiting = contract.optionalString(message),
        .requeue = .{ .is_some = true, .val = 1500 },
    };
}

fn report(text: []const u8) void {
    host.log(.info, "reported", &.{ .{ "text", text }, .{ "number", "1" } });
    host.log(.warn, "warned", &.{});
    host.spanAttribute("probe.text", text);
    host.spanEvent("reported", &.{.{ "text", text }});
    host.measure("reports_total", 1, &.{.{ "kind", "probe" }});
    host.measure("size", 1.5, &.{});
}

/// Sets what is neither a child nor the status.
fn surround(response: *contract.Response, spec: fields.Spec, failure: *contract.Failure) Error!void {
    const events = try memory.alloc(contract.Event, spec.events.len);
    for (events, spec.events) |*event, given| event.* = .{
        .event_type = if (given.warning)
            bindings.WINDLASS_PLUGIN_TYPES_EVENT_TYPE_WARNING
        else
            bindings.WINDLASS_PLUGIN_TYPES_EVENT_TYPE_NORMAL,
        .reason = contract.string(given.reason),
        .message = contract.string(given.message),
    };
    response.events = contract.list(@TypeOf(response.events), events);
    response.waiting = contract.optionalString(spec.waiting);
    if (spec.requeueSeconds) |seconds| response.requeue = .{ .is_some = true, .val = @as(u64, seconds) * 1000 };
    if (spec.requeueAt) |text| {
        const at = time.parse(text) orelse return invalid(failure, "spec.requeueAt", "is not a time since 1970");
        response.requeue_at = .{ .is_some = true, .val = at };
    }
    if (spec.keepAll) {
        response.keep.tag = bindings.WINDLASS_PLUGIN_TYPES_KEEP_ALL;
    } else if (spec.keep.len > 0) {
        const kept = try memory.alloc(contract.ChildRef, spec.keep.len);
        for (kept, spec.keep) |*child, name| child.* = children.configMapRef(name);
        response.keep.tag = bindings.WINDLASS_PLUGIN_TYPES_KEEP_THESE;
        response.keep.val.these = contract.list(@TypeOf(response.keep.val.these), kept);
    }
}

fn setStatus(response: *contract.Response, status: fields.Status) void {
    response.status = .{ .is_some = true, .val = contract.bytes(json.write(status)) };
}

fn statusOf(
    request: contract.Request,
    parent: json.Value,
    spec: fields.Spec,
    related: Related,
    failure: *contract.Failure,
) Error!fields.Status {
    var status = fields.Status{
        .live = 0,
        .text = spec.text,
        .number = spec.number,
        .decimal = spec.decimal,
        .map = spec.map,
        .copy = spec.copy,
        .before = textOfLastStatus(parent),
        .label = json.textAt(parent, &.{ "metadata", "labels", "probe" }),
        .annotation = json.textAt(parent, &.{ "metadata", "annotations", "probe" }),
        .related = if (related.objects) |objects| objects.items else null,
        .config = try readConfig(request, failure),
        .time = if (spec.time) time.format(host.now()) else null,
        .seen = if (spec.see) try see(request) else null,
        .scheduled = if (spec.schedule) |asked| try schedule.scheduled(asked, failure) else null,
        .conditions = try conditions(spec),
    };
    var leaving: std.ArrayList([]const u8) = .empty;
    for (slice(request.children)) |child| {
        const object = try json.parse(child.object);
        if (kinds.config_map.is(child.kind)) {
            status.live += 1;
            const is_leaving = json.at(object, &.{ "metadata", "deletionTimestamp" }) != null;
            if (is_leaving) try leaving.append(memory, slice(child.name));
        }
        if (kinds.copy.is(child.kind) and json.isConditionTrue(object, "Ready")) status.ready += 1;
    }
    if (leaving.items.len > 0) status.leaving = leaving.items;
    return status;
}

fn textOfLastStatus(parent: json.Value) ?[]const u8 {
    var misfit: json.Misfit = undefined;
    const given = json.at(parent, &.{"status"}) orelse return null;
    // A status of another type is that of another version of the plugin.
    const last = json.read(fields.LastStatus, given, "status", &misfit) catch return null;
    return last.text;
}

fn conditions(spec: fields.Spec) Error!?[]const fields.StatusCondition {
    if (spec.conditions.len == 0) return null;
    const all = try memory.alloc(fields.StatusCondition, spec.conditions.len);
    for (all, spec.conditions) |*condition, given| condition.* = .{
        .type = given.type,
        .status = if (given.holds) "True" else "False",
        .reason = given.reason,
        .message = given.message,
    };
    return all;
}

fn see(request: contract.Request) Error!fields.Seen {
    var readiness: std.ArrayList([]const u8) = .empty;
    for (slice(request.children)) |child| {
        const state = switch (child.readiness.tag) {
            bindings.WINDLASS_PLUGIN_TYPES_READINESS_READY => "ready",
            bindings.WINDLASS_PLUGIN_TYPES_READINESS_PROGRESSING => print("progressing, {s}", .{slice(child.readiness.val.progressing)}),
            bindings.WINDLASS_PLUGIN_TYPES_READINESS_FAILED => print("failed, {s}", .{slice(child.readiness.val.failed)}),
            else => "unknown",
        };
        try readiness.append(memory, print("{s} {s}: {s}", .{ slice(child.kind.name), slice(child.name), state }));
    }
    var existing: std.ArrayList([]const u8) = .empty;
    for (slice(request.kinds)) |kind| {
        if (kinds.extra.is(kind)) try existing.append(memory, kinds.extra.name);
    }
    var closed: std.ArrayList([]const u8) = .empty;
    for (slice(request.capabilities.closed_namespaces)) |namespace| try closed.append(memory, slice(namespace));
    return .{
        .readiness = readiness.items,
        .kinds = existing.items,
        .closed = closed.items,
        .now = time.format(request.now.val / std.time.ms_per_s),
    };
}
