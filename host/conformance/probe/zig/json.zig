//! JSON without loss: numbers stay the texts that they are, and a value that a type cannot hold is reported with its field.

const std = @import("std");
const contract = @import("contract.zig");
const memory = contract.memory;
const print = contract.print;

pub const Value = std.json.Value;
pub const Object = std.json.ObjectMap;
pub const ParseError = std.json.ParseError(std.json.Scanner);

/// Texts by names.
pub const Texts = struct {
    entries: Object,

    pub fn jsonStringify(texts: Texts, writer: *std.json.Stringify) !void {
        try writer.write(Value{ .object = texts.entries });
    }
};

/// Which value does not fit, and why.
pub const Misfit = struct { field: []const u8, why: []const u8 };

/// A document without its fields that are null: in Kubernetes, such a field is like one that is missing.
pub fn parse(document: contract.Json) ParseError!Value {
    var value = try std.json.parseFromSliceLeaky(Value, memory, contract.slice(document), .{ .parse_numbers = false });
    try dropNulls(&value);
    return value;
}

fn dropNulls(value: *Value) error{OutOfMemory}!void {
    switch (value.*) {
        .array => |array| for (array.items) |*item| try dropNulls(item),
        .object => |*object| {
            var kept: Object = .empty;
            var fields = object.iterator();
            while (fields.next()) |field| {
                if (field.value_ptr.* == .null) continue;
                try dropNulls(field.value_ptr);
                try kept.put(memory, field.key_ptr.*, field.value_ptr.*);
            }
            object.* = kept;
        },
        else => {},
    }
}

/// The text of a value. Optional fields without a value are left out.
pub fn write(value: anytype) []const u8 {
    return std.json.Stringify.valueAlloc(memory, value, .{ .emit_null_optional_fields = false }) catch @panic("out of memory");
}

/// The value at this path of names.
pub fn at(value: Value, path: []const []const u8) ?Value {
    var found = value;
    for (path) |name| {
        if (found != .object) return null;
        found = found.object.get(name) orelse return null;
    }
    return found;
}

/// The text at this path of names.
pub fn textAt(value: Value, path: []const []const u8) ?[]const u8 {
    const found = at(value, path) orelse return null;
    return if (found == .string) found.string else null;
}

/// Whether an object has this condition, and it is True.
pub fn isConditionTrue(object: Value, name: []const u8) bool {
    const conditions = at(object, &.{ "status", "conditions" }) orelse return false;
    if (conditions != .array) return false;
    for (conditions.array.items) |condition| {
        const is_it = std.mem.eql(u8, textAt(condition, &.{"type"}) orelse continue, name);
        if (is_it) return std.mem.eql(u8, textAt(condition, &.{"status"}) orelse "", "True");
    }
    return false;
}

/// Reads a value as a type: a struct has fields, of which those without a default are required. Unknown fields are ignored.
pub fn read(comptime T: type, value: Value, field: []const u8, misfit: *Misfit) error{ Misfit, OutOfMemory }!T {
    if (T == Value) return value;
    if (T == Texts) return readTexts(value, field, misfit);
    if (T == []const u8) return if (value == .string) value.string else unfit(misfit, field, "is not a text");
    return switch (@typeInfo(T)) {
        .bool => if (value == .bool) value.bool else unfit(misfit, field, "is neither true nor false"),
        .int => readInteger(T, value) orelse unfit(misfit, field, comptime std.fmt.comptimePrint(
            "is not a whole number from {d} to {d}",
            .{ std.math.minInt(T), std.math.maxInt(T) },
        )),
        .float => readFloat(T, value) orelse unfit(misfit, field, "is not a number"),
        .@"enum" => readChoice(T, value) orelse unfit(misfit, field, "is none of the values that are possible"),
        .optional => |optional| try read(optional.child, value, field, misfit),
        .pointer => |pointer| readList(pointer.child, value, field, misfit),
        .@"struct" => readFields(T, value, field, misfit),
        else => @compileError("no JSON is read as " ++ @typeName(T)),
    };
}

fn unfit(misfit: *Misfit, field: []const u8, why: []const u8) error{Misfit} {
    misfit.* = .{ .field = field, .why = why };
    return error.Misfit;
}

fn readInteger(comptime T: type, value: Value) ?T {
    if (value != .number_string) return null;
    return std.fmt.parseInt(T, value.number_string, 10) catch null;
}

fn readFloat(comptime T: type, value: Value) ?T {
    if (value != .number_string) return null;
    return std.fmt.parseFloat(T, value.number_string) catch null;
}

fn readChoice(comptime T: type, value: Value) ?T {
    return if (value == .string) std.meta.stringToEnum(T, value.string) else null;
}

fn readTexts(value: Value, field: []const u8, misfit: *Misfit) error{Misfit}!Texts {
    if (value != .object) return unfit(misfit, field, "is not an object");
    for (value.object.keys(), value.object.values()) |name, entry| {
        if (entry != .string) return unfit(misfit, print("{s}.{s}", .{ field, name }), "is not a text");
    }
    return .{ .entries = value.object };
}

fn readList(comptime T: type, value: Value, field: []const u8, misfit: *Misfit) error{ Misfit, OutOfMemory }![]const T {
    if (value != .array) return unfit(misfit, field, "is not a list");
    const items = try memory.alloc(T, value.array.items.len);
    for (items, value.array.items, 0..) |*item, given, index| {
        item.* = try read(T, given, print("{s}[{d}]", .{ field, index }), misfit);
    }
    return items;
}

fn readFields(comptime T: type, value: Value, field: []const u8, misfit: *Misfit) error{ Misfit, OutOfMemory }!T {
    if (value != .object) return unfit(misfit, field, "is not an object");
    const info = @typeInfo(T).@"struct";
    var fields: T = undefined;
    inline for (info.field_names, info.field_types, info.field_attrs) |name, Field, attributes| {
        const path = print("{s}.{s}", .{ field, name });
        @field(fields, name) = if (value.object.get(name)) |given|
            try read(Field, given, path, misfit)
        else
            attributes.defaultValue(Field) orelse return unfit(misfit, path, "is required");
    }
    return fields;
}
