//! The probe without an SDK: a plugin whose spec tells what to do, on the bindings that wit-bindgen makes of the contract, so that
//! `windlass test --conformance` sees what such a plugin can do. The probes of the SDKs do the same.

const std = @import("std");
const contract = @import("contract.zig");
const bindings = contract.bindings;
const host = @import("host.zig");
const kinds = @import("kinds.zig");
const probe = @import("probe.zig");
const list = contract.list;
const string = contract.string;

export fn exports_windlass_plugin_reconciler_describe(descriptor: *contract.Descriptor) void {
    descriptor.* = .{
        .name = string("probe"),
        .version = string("0.1.0"),
        .description = string("Does what its spec tells, so that a test sees what a plugin without an SDK can do"),
        .parent = .{
            .tag = bindings.WINDLASS_PLUGIN_TYPES_PARENT_CUSTOM,
            .val = .{ .custom = .{ .definition = contract.bytes(@embedFile("crd.json")) } },
        },
        .children = list(@TypeOf(descriptor.children), &.{
            childRule(kinds.config_map, false),
            childRule(kinds.copy, false),
            childRule(kinds.extra, true),
        }),
        .related = list(@TypeOf(descriptor.related), &.{.{ .kind = kinds.config_map.generated() }}),
        .finalizes = true,
        .ready_means = bindings.WINDLASS_PLUGIN_TYPES_READY_MEANS_APPLIED,
        .clock = true,
        .resync = .{ .is_some = true, .val = 5 * std.time.ms_per_min },
        .config_schema = .{ .is_some = true, .val = contract.bytes(@embedFile("config.json")) },
        .metrics = list(@TypeOf(descriptor.metrics), &.{
            .{
                .name = string("reports_total"),
                .description = string("Reports"),
                .metric_type = bindings.WINDLASS_PLUGIN_TYPES_METRIC_TYPE_COUNTER,
                .labels = list(@FieldType(contract.Metric, "labels"), &.{string("kind")}),
            },
            .{
                .name = string("size"),
                .unit = string("By"),
                .description = string("The size of the report"),
                .metric_type = bindings.WINDLASS_PLUGIN_TYPES_METRIC_TYPE_GAUGE,
            },
        }),
    };
}

fn childRule(kind: kinds.Kind, optional: bool) contract.ChildRule {
    return .{
        .kind = kind.generated(),
        .update = .{ .tag = bindings.WINDLASS_PLUGIN_TYPES_UPDATE_STRATEGY_APPLY },
        .optional = optional,
    };
}

export fn exports_windlass_plugin_reconciler_reconcile(
    request: *contract.Request,
    response: *contract.Response,
    failure: *contract.Failure,
) bool {
    response.* = probe.respond(request.*, failure) catch |cause| {
        if (cause != error.Failed) failure.* = contract.failed(@errorName(cause));
        return false;
    };
    return true;
}

/// A panic is a trap, which has no message: this writes the message to the host's log first, from where the host copies it into
/// the parent's condition.
pub const panic = std.debug.FullPanic(struct {
    fn call(message: []const u8, _: ?usize) noreturn {
        host.log(.@"error", message, &.{});
        @trap();
    }
}.call);
