//! The kinds of the probe's children.

const std = @import("std");
const contract = @import("contract.zig");

/// A kind, by the texts of its objects.
pub const Kind = struct {
    api_version: []const u8,
    name: []const u8,

    pub fn generated(kind: Kind) contract.Kind {
        return .{ .api_version = contract.string(kind.api_version), .name = contract.string(kind.name) };
    }

    pub fn is(kind: Kind, other: contract.Kind) bool {
        const has_version = std.mem.eql(u8, kind.api_version, contract.slice(other.api_version));
        return has_version and std.mem.eql(u8, kind.name, contract.slice(other.name));
    }
};

pub const config_map = Kind{ .api_version = "v1", .name = "ConfigMap" };
/// Only the probe has it.
pub const copy = Kind{ .api_version = "conformance.example/v1", .name = "Copy" };
/// It may be missing.
pub const extra = Kind{ .api_version = "conformance.example/v1", .name = "Extra" };
