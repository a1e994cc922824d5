//! The generated types by short names, and conversions to and from them.

const std = @import("std");
pub const bindings = @import("bindings.zig");

pub const Request = bindings.windlass_plugin_types_request_t;
pub const Response = bindings.windlass_plugin_types_response_t;
pub const Failure = bindings.windlass_plugin_types_failure_t;
pub const Descriptor = bindings.windlass_plugin_types_descriptor_t;
pub const DesiredChild = bindings.windlass_plugin_types_desired_child_t;
pub const ChildRef = bindings.windlass_plugin_types_child_ref_t;
pub const ChildRule = bindings.windlass_plugin_types_child_rule_t;
pub const Event = bindings.windlass_plugin_types_event_t;
pub const Finalizing = bindings.windlass_plugin_types_finalizing_t;
pub const Json = bindings.windlass_plugin_types_json_t;
pub const Kind = bindings.windlass_plugin_types_kind_t;
pub const Metric = bindings.windlass_plugin_types_metric_t;
pub const Requirement = bindings.windlass_plugin_types_requirement_t;
pub const String = bindings.plugin_string_t;
pub const Pair = bindings.plugin_tuple2_string_string_t;
pub const Pairs = bindings.plugin_list_tuple2_string_string_t;

/// The generated code frees what a call returns, so everything that it returns is allocated, even literals. Nothing else is
/// freed: the host discards the whole memory after each call.
pub const memory = std.heap.c_allocator;

/// The elements of a generated list type, or the bytes of a text.
pub fn slice(of: anytype) []std.meta.Child(@TypeOf(of.ptr)) {
    return of.ptr[0..of.len];
}

/// A generated list type with a copy of these elements. An empty list has no pointer: Zig's own is outside of the memory, which the
/// host rejects.
pub fn list(comptime List: type, elements: []const std.meta.Child(@FieldType(List, "ptr"))) List {
    if (elements.len == 0) return std.mem.zeroes(List);
    const copy = memory.dupe(std.meta.Child(@FieldType(List, "ptr")), elements) catch @panic("out of memory");
    return .{ .ptr = copy.ptr, .len = copy.len };
}

pub fn string(text: []const u8) String {
    return list(String, text);
}

pub fn bytes(text: []const u8) Json {
    return list(Json, text);
}

/// A generated option type with this value, or without one.
pub fn option(comptime Option: type, value: ?@FieldType(Option, "val")) Option {
    return if (value) |some| .{ .is_some = true, .val = some } else std.mem.zeroes(Option);
}

pub fn optionalString(text: ?[]const u8) bindings.plugin_option_string_t {
    return option(bindings.plugin_option_string_t, if (text) |some| string(some) else null);
}

/// A failure that names a field of the parent.
pub fn invalid(field: []const u8, message: []const u8) Failure {
    return .{
        .tag = bindings.WINDLASS_PLUGIN_TYPES_FAILURE_INVALID,
        .val = .{ .invalid = .{ .field = optionalString(field), .message = string(message) } },
    };
}

pub fn failed(message: []const u8) Failure {
    return .{ .tag = bindings.WINDLASS_PLUGIN_TYPES_FAILURE_FAILED, .val = .{ .failed = string(message) } };
}

/// A formatted text.
pub fn print(comptime format: []const u8, arguments: anytype) []const u8 {
    return std.fmt.allocPrint(memory, format, arguments) catch @panic("out of memory");
}
