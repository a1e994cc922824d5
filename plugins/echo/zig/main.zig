//! Echo without an SDK: a number of Pods of one image, on the bindings that wit-bindgen makes of the contract.

const std = @import("std");
const json = std.json;
const contract = @import("bindings.zig");

/// The generated code frees what a call returns, so everything that it returns is allocated, even literals. Nothing else is
/// freed: the host discards the whole memory after each call.
const memory = std.heap.c_allocator;

const Parent = struct {
    metadata: struct { name: []const u8, uid: []const u8 },
    /// The fields of the spec are checked one by one, so that a message names the field.
    spec: struct { replicas: json.Value = .null, image: json.Value = .null } = .{},
};

const Pod = struct {
    status: struct { conditions: ?[]const struct { type: []const u8, status: []const u8 } = null } = .{},

    fn isReady(pod: Pod) bool {
        for (pod.status.conditions orelse return false) |condition| {
            if (std.mem.eql(u8, condition.type, "Ready")) return std.mem.eql(u8, condition.status, "True");
        }
        return false;
    }
};

const Status = struct { currentReplicas: usize, isReady: bool };

/// What is wrong with a field of the parent.
const Invalid = struct { field: []const u8, message: []const u8 };

/// Why there is no response: the spec is invalid, and the call's `invalid` says why, or the call failed.
const Failure = error{Invalid} || json.ParseError(json.Scanner);

fn reconcile(request: Request, invalid: *Invalid) Failure!struct { pods: [][]const u8, status: Status } {
    const parent = try parse(Parent, request.parent);
    const replicas = switch (parent.spec.replicas) {
        .integer => |number| if (number >= 0 and number <= 1000) @as(usize, @intCast(number)) else null,
        else => null,
    } orelse {
        invalid.* = .{ .field = "spec.replicas", .message = "is not a whole number from 0 to 1000" };
        return error.Invalid;
    };
    const image = switch (parent.spec.image) {
        .string => |text| if (text.len > 0 and std.mem.indexOfAny(u8, text, &std.ascii.whitespace) == null) text else null,
        else => null,
    } orelse {
        invalid.* = .{ .field = "spec.image", .message = "is not the name of an image" };
        return error.Invalid;
    };

    const pods = try memory.alloc([]const u8, replicas);
    for (pods, 0..) |*pod, index| {
        pod.* = try json.Stringify.valueAlloc(memory, .{
            .apiVersion = "v1",
            .kind = "Pod",
            .metadata = .{
                .name = try std.fmt.allocPrint(memory, "{s}-{d}", .{ parent.metadata.name, index }),
                .labels = .{ .app = parent.metadata.name, .owner = parent.metadata.uid },
            },
            .spec = .{ .containers = .{.{ .name = "nginx", .image = image }} },
        }, .{});
    }

    const children = slice(request.children);
    var ready: usize = 0;
    for (children) |child| {
        if ((try parse(Pod, child.object)).isReady()) ready += 1;
    }
    const is_ready = ready == children.len and ready == replicas;
    return .{ .pods = pods, .status = .{ .currentReplicas = children.len, .isReady = is_ready } };
}

// The rest connects `reconcile` with the generated bindings.

const Request = contract.exports_windlass_plugin_reconciler_request_t;
const Child = contract.windlass_plugin_types_desired_child_t;
const Bytes = contract.windlass_plugin_types_json_t;

export fn exports_windlass_plugin_reconciler_describe(descriptor: *contract.exports_windlass_plugin_reconciler_descriptor_t) void {
    const pod = contract.windlass_plugin_types_child_rule_t{
        .kind = .{ .api_version = string("v1"), .name = string("Pod") },
        .update = .{ .tag = contract.WINDLASS_PLUGIN_TYPES_UPDATE_STRATEGY_APPLY },
    };
    descriptor.* = std.mem.zeroes(@TypeOf(descriptor.*));
    descriptor.name = string("echo");
    descriptor.version = string("0.1.0");
    descriptor.description = string("Runs the desired number of Pods of an image");
    descriptor.parent = .{
        .tag = contract.WINDLASS_PLUGIN_TYPES_PARENT_CUSTOM,
        .val = .{ .custom = .{ .definition = bytes(@embedFile("crd.json")) } },
    };
    descriptor.children = list(@TypeOf(descriptor.children), &.{pod});
    // `status.isReady` says whether the Pods are ready.
    descriptor.ready_means = contract.WINDLASS_PLUGIN_TYPES_READY_MEANS_APPLIED;
    descriptor.resync = .{ .is_some = true, .val = 5 * std.time.ms_per_min };
}

export fn exports_windlass_plugin_reconciler_reconcile(
    request: *Request,
    response: *contract.exports_windlass_plugin_reconciler_response_t,
    failure: *contract.exports_windlass_plugin_reconciler_failure_t,
) bool {
    var invalid: Invalid = undefined;
    const desired = reconcile(request.*, &invalid) catch |cause| {
        failure.* = switch (cause) {
            error.Invalid => .{
                .tag = contract.WINDLASS_PLUGIN_TYPES_FAILURE_INVALID,
                .val = .{ .invalid = .{
                    .field = .{ .is_some = true, .val = string(invalid.field) },
                    .message = string(invalid.message),
                } },
            },
            else => .{
                .tag = contract.WINDLASS_PLUGIN_TYPES_FAILURE_FAILED,
                .val = .{ .failed = string(@errorName(cause)) },
            },
        };
        return false;
    };
    response.* = std.mem.zeroes(@TypeOf(response.*));
    const children = memory.alloc(Child, desired.pods.len) catch @panic("out of memory");
    for (children, desired.pods) |*child, pod| child.* = .{ .object = bytes(pod) };
    response.children = list(@TypeOf(response.children), children);
    const status = json.Stringify.valueAlloc(memory, desired.status, .{}) catch @panic("out of memory");
    response.status = .{ .is_some = true, .val = bytes(status) };
    return true;
}

fn parse(comptime T: type, document: Bytes) json.ParseError(json.Scanner)!T {
    return json.parseFromSliceLeaky(T, memory, slice(document), .{ .ignore_unknown_fields = true });
}

/// The elements of a generated list type.
fn slice(of: anytype) []std.meta.Child(@TypeOf(of.ptr)) {
    return of.ptr[0..of.len];
}

/// A generated list type with a copy of these elements. Zig allocates nothing at an address outside of the memory, which the host
/// rejects.
fn list(comptime List: type, elements: []const std.meta.Child(@FieldType(List, "ptr"))) List {
    if (elements.len == 0) return std.mem.zeroes(List);
    const copy = memory.dupe(std.meta.Child(@FieldType(List, "ptr")), elements) catch @panic("out of memory");
    return .{ .ptr = copy.ptr, .len = copy.len };
}

fn bytes(text: []const u8) Bytes {
    return list(Bytes, text);
}

fn string(text: []const u8) contract.plugin_string_t {
    return list(contract.plugin_string_t, text);
}

/// A panic is a trap, which has no message: this writes the message to the host's log first, from where the host copies it into
/// the parent's condition.
pub const panic = std.debug.FullPanic(struct {
    fn call(message: []const u8, _: ?usize) noreturn {
        var text = contract.plugin_string_t{ .ptr = @constCast(message.ptr), .len = message.len };
        var fields = std.mem.zeroes(contract.plugin_list_tuple2_string_string_t);
        contract.windlass_plugin_host_log(contract.WINDLASS_PLUGIN_HOST_LEVEL_ERROR, &text, &fields);
        @trap();
    }
}.call);
