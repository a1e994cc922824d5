//! Times as Kubernetes writes them (RFC 3339).

const std = @import("std");
const epoch = std.time.epoch;
const print = @import("contract.zig").print;

/// Seconds since 1970, in UTC.
pub fn format(seconds: u64) []const u8 {
    const at = epoch.EpochSeconds{ .secs = seconds };
    const year = at.getEpochDay().calculateYearDay();
    const month = year.calculateMonthDay();
    const day = at.getDaySeconds();
    return print("{d:0>4}-{d:0>2}-{d:0>2}T{d:0>2}:{d:0>2}:{d:0>2}Z", .{
        year.year,             month.month.numeric(),    month.day_index + 1,
        day.getHoursIntoDay(), day.getMinutesIntoHour(), day.getSecondsIntoMinute(),
    });
}

/// Milliseconds since 1970 at this time, or null if the text is none, or is before 1970.
pub fn parse(text: []const u8) ?u64 {
    var rest = Rest{ .text = text };
    const year = rest.number(4) orelse return null;
    const month = rest.after("-", 2) orelse return null;
    const day = rest.after("-", 2) orelse return null;
    const hour = rest.after("Tt ", 2) orelse return null;
    const minute = rest.after(":", 2) orelse return null;
    const second = rest.after(":", 2) orelse return null;
    const milliseconds = if (rest.skip(".")) rest.fraction() orelse return null else 0;
    const offset = rest.offset() orelse return null;
    // The last second of a day may be a leap second.
    if (rest.text.len > 0 or hour > 23 or minute > 59 or second > 60) return null;
    const days = daysBefore(year, month, day) orelse return null;
    const seconds = @as(i64, days) * epoch.secs_per_day + @as(i64, hour) * 3600 + @as(i64, minute) * 60 + second - offset;
    return if (seconds < 0) null else @as(u64, @intCast(seconds)) * 1000 + milliseconds;
}

/// The days from 1970 to this date.
fn daysBefore(year: u16, month: u16, day: u16) ?u32 {
    if (year < epoch.epoch_year or month < 1 or month > 12 or day < 1) return null;
    if (day > daysIn(year, month)) return null;
    var days: u32 = day - 1;
    for (epoch.epoch_year..year) |before| days += epoch.getDaysInYear(@intCast(before));
    for (1..month) |before| days += daysIn(year, @intCast(before));
    return days;
}

fn daysIn(year: u16, month: u16) u16 {
    return epoch.getDaysInMonth(year, @fromBackingInt(@intCast(month)));
}

/// What is left of a text.
const Rest = struct {
    text: []const u8,

    /// Skips one of these characters.
    fn skip(rest: *Rest, of: []const u8) bool {
        if (rest.text.len == 0 or std.mem.findScalar(u8, of, rest.text[0]) == null) return false;
        rest.text = rest.text[1..];
        return true;
    }

    /// Takes a number of so many digits.
    fn number(rest: *Rest, count: usize) ?u16 {
        if (rest.text.len < count) return null;
        for (rest.text[0..count]) |character| {
            if (!std.ascii.isDigit(character)) return null;
        }
        defer rest.text = rest.text[count..];
        return std.fmt.parseInt(u16, rest.text[0..count], 10) catch null;
    }

    /// Takes a number behind one of these characters.
    fn after(rest: *Rest, of: []const u8, count: usize) ?u16 {
        return if (rest.skip(of)) rest.number(count) else null;
    }

    /// Takes the digits of a fraction of a second, in milliseconds.
    fn fraction(rest: *Rest) ?u64 {
        var milliseconds: u64 = 0;
        var unit: u64 = 100;
        var digits: usize = 0;
        while (rest.number(1)) |digit| : (digits += 1) {
            milliseconds += digit * unit;
            unit /= 10;
        }
        return if (digits == 0) null else milliseconds;
    }

    /// Takes the time zone, in seconds east of UTC.
    fn offset(rest: *Rest) ?i64 {
        if (rest.skip("Zz")) return 0;
        const sign: i64 = if (rest.skip("+")) 1 else if (rest.skip("-")) -1 else return null;
        const hours = rest.number(2) orelse return null;
        const minutes = rest.after(":", 2) orelse return null;
        return if (hours > 23 or minutes > 59) null else sign * (@as(i64, hours) * 3600 + @as(i64, minutes) * 60);
    }
};
