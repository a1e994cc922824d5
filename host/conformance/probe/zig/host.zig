//! What the probe calls: the functions of the contract's interface `host`, and of WASI.

const std = @import("std");
const contract = @import("contract.zig");
const bindings = contract.bindings;
const string = contract.string;

/// A label, an attribute or a field of a log line.
pub const Pair = struct { []const u8, []const u8 };

pub const Level = enum(u8) {
    info = bindings.WINDLASS_PLUGIN_HOST_LEVEL_INFO,
    warn = bindings.WINDLASS_PLUGIN_HOST_LEVEL_WARN,
    @"error" = bindings.WINDLASS_PLUGIN_HOST_LEVEL_ERROR,
};

pub fn log(level: Level, message: []const u8, fields: []const Pair) void {
    var text = string(message);
    var given = pairs(fields);
    bindings.windlass_plugin_host_log(@backingInt(level), &text, &given);
}

pub fn spanAttribute(key: []const u8, value: []const u8) void {
    var name = string(key);
    var text = string(value);
    bindings.windlass_plugin_host_span_attribute(&name, &text);
}

pub fn spanEvent(name: []const u8, attributes: []const Pair) void {
    var text = string(name);
    var given = pairs(attributes);
    bindings.windlass_plugin_host_span_event(&text, &given);
}

pub fn measure(metric: []const u8, value: f64, labels: []const Pair) void {
    var name = string(metric);
    var given = pairs(labels);
    bindings.windlass_plugin_host_measure(&name, value, &given);
}

/// The same bytes for the same request.
pub fn random(count: u64) []const u8 {
    var bytes: bindings.plugin_list_u8_t = undefined;
    bindings.wasi_random_random_get_random_bytes(count, &bytes);
    return contract.slice(bytes);
}

/// Seconds since 1970 by the wall clock: a call that reads it is never skipped.
pub fn now() u64 {
    var time: bindings.wasi_clocks_wall_clock_datetime_t = undefined;
    bindings.wasi_clocks_wall_clock_now(&time);
    return time.seconds;
}

fn pairs(of: []const Pair) contract.Pairs {
    const copies = contract.memory.alloc(contract.Pair, of.len) catch @panic("out of memory");
    for (copies, of) |*copy, pair| copy.* = .{ .f0 = string(pair[0]), .f1 = string(pair[1]) };
    return contract.list(contract.Pairs, copies);
}
