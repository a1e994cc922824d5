//! The objects that the probe requires.

const std = @import("std");
const contract = @import("contract.zig");
const bindings = contract.bindings;
const fields = @import("fields.zig");
const json = @import("json.zig");
const kinds = @import("kinds.zig");
const memory = contract.memory;

pub const Related = struct {
    request: contract.Request,
    requirements: std.ArrayList(contract.Requirement) = .empty,
    /// What the host has served for them; null if it was not asked before.
    objects: ?std.ArrayList(json.Value) = null,

    /// All requirements, in every call: if one is missing, the host takes it as withdrawn.
    pub fn require(related: *Related, spec: fields.Spec) !void {
        if (spec.require) |name| {
            const first = try related.serve("named", named(name), false);
            const next = if (first) |object| json.textAt(object, &.{ "data", "next" }) else null;
            if (next) |following| _ = try related.serve("next", named(following), false);
        }
        if (spec.select) |labels| _ = try related.serve("labelled", .{
            .tag = bindings.WINDLASS_PLUGIN_TYPES_SELECTION_LABELS,
            .val = .{ .labels = contract.string(labels) },
        }, spec.everywhere);
    }

    /// Requires ConfigMaps, and returns the first of them that the host has served.
    fn serve(related: *Related, id: []const u8, select: Selection, everywhere: bool) !?json.Value {
        try related.requirements.append(memory, .{
            .id = contract.string(id),
            .kind = kinds.config_map.generated(),
            .namespaces = .{ .tag = if (everywhere)
                bindings.WINDLASS_PLUGIN_TYPES_NAMESPACES_ALL
            else
                bindings.WINDLASS_PLUGIN_TYPES_NAMESPACES_OF_PARENT },
            .select = select,
            .metadata_only = everywhere,
        });
        for (contract.slice(related.request.related)) |served| {
            if (!std.mem.eql(u8, contract.slice(served.id), id)) continue;
            if (related.objects == null) related.objects = .empty;
            const before = related.objects.?.items.len;
            for (contract.slice(served.objects)) |observed| {
                try related.objects.?.append(memory, try json.parse(observed.object));
            }
            const all = related.objects.?.items;
            return if (all.len > before) all[before] else null;
        }
        return null;
    }
};

const Selection = @FieldType(contract.Requirement, "select");

fn named(name: []const u8) Selection {
    return .{ .tag = bindings.WINDLASS_PLUGIN_TYPES_SELECTION_NAME, .val = .{ .name = contract.string(name) } };
}
