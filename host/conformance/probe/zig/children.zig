//! The children that the probe returns.

const std = @import("std");
const contract = @import("contract.zig");
const bindings = contract.bindings;
const fields = @import("fields.zig");
const host = @import("host.zig");
const json = @import("json.zig");
const kinds = @import("kinds.zig");
const memory = contract.memory;
const print = contract.print;

pub const Children = std.ArrayList(contract.DesiredChild);

/// The children of a parent with this name and spec.
pub fn of(parent: []const u8, spec: fields.Spec, failure: *contract.Failure) !Children {
    var children: Children = .empty;
    for (0..spec.children) |index| {
        const options = if (index < spec.options.len) spec.options[index] else fields.Options{};
        if (contradiction(spec, options)) |why| {
            failure.* = contract.invalid(print("spec.options[{d}]", .{index}), why);
            return error.Failed;
        }
        const name = print("{s}-{d}", .{ parent, index });
        try children.append(memory, withOptions(configMap(name, try data(spec, index)), spec, options));
    }
    if (spec.copy) |copy| {
        const name = print("{s}-copy", .{parent});
        try children.append(memory, child(.{
            .apiVersion = kinds.copy.api_version,
            .kind = kinds.copy.name,
            .metadata = .{ .name = name },
            .spec = copy,
        }));
    }
    if (spec.random) {
        const bytes = print("{x}", .{host.random(8)});
        try children.append(memory, child(configMap(print("{s}-random", .{parent}), .{ .bytes = bytes })));
    }
    return children;
}

/// A child without options.
pub fn child(object: anytype) contract.DesiredChild {
    return .{ .object = contract.bytes(json.write(object)) };
}

fn ConfigMap(comptime Data: type) type {
    return struct {
        apiVersion: []const u8 = kinds.config_map.api_version,
        kind: []const u8 = kinds.config_map.name,
        metadata: struct { name: []const u8 },
        data: Data,
    };
}

pub fn configMap(name: []const u8, content: anytype) ConfigMap(@TypeOf(content)) {
    return .{ .metadata = .{ .name = name }, .data = content };
}

fn data(spec: fields.Spec, index: usize) !json.Texts {
    var entries: json.Object = .empty;
    try entries.put(memory, "index", .{ .string = print("{d}", .{index}) });
    if (spec.text) |text| try entries.put(memory, "text", .{ .string = text });
    if (spec.map) |map| {
        for (map.entries.keys(), map.entries.values()) |name, text| try entries.put(memory, name, text);
    }
    return .{ .entries = entries };
}

/// Why the host would refuse a ConfigMap with these options.
fn contradiction(spec: fields.Spec, options: fields.Options) ?[]const u8 {
    if ((spec.retain or options.retain) and options.once != null) return "retain and once exclude each other";
    const replaced = options.replaces orelse return null;
    for (spec.keep) |kept| {
        if (std.mem.eql(u8, kept, replaced)) return "replaces a ConfigMap that is kept";
    }
    return if (spec.keepAll) "replaces a ConfigMap that is kept" else null;
}

fn withOptions(object: anytype, spec: fields.Spec, options: fields.Options) contract.DesiredChild {
    var made = child(object);
    made.stage = options.stage;
    made.retain = spec.retain or options.retain;
    made.take_over = options.takeOver;
    made.ready = contract.option(@TypeOf(made.ready), options.ready);
    if (options.once) |text| {
        made.create = .{ .tag = bindings.WINDLASS_PLUGIN_TYPES_CREATE_ONCE, .val = .{ .once = contract.string(text) } };
    }
    if (options.update) |update| made.update = .{ .is_some = true, .val = .{ .tag = switch (update) {
        .apply => bindings.WINDLASS_PLUGIN_TYPES_UPDATE_STRATEGY_APPLY,
        .recreate => bindings.WINDLASS_PLUGIN_TYPES_UPDATE_STRATEGY_RECREATE,
        .onDelete => bindings.WINDLASS_PLUGIN_TYPES_UPDATE_STRATEGY_ON_DELETE,
    } } };
    if (options.replaces) |name| made.replaces = .{ .is_some = true, .val = configMapRef(name) };
    return made;
}

pub fn configMapRef(name: []const u8) contract.ChildRef {
    return .{ .kind = kinds.config_map.generated(), .name = contract.string(name) };
}
