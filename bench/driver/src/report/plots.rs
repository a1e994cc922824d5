//! Plots of a run's figures, as SVG, from the JSON that `--json` writes.

use std::fs;
use std::path::Path;

use anyhow::Context as _;
use plotters::prelude::*;
use serde_json::Value;

use super::{MB, short};

/// Width of a plot, in pixels.
const WIDTH: u32 = 720;
/// Height of a plot of lines, in pixels.
const HEIGHT: u32 = 320;
/// Height of a title, in pixels.
const TITLE: i32 = 48;
/// Height of a bar and the space below it, in pixels.
const ROW: i32 = 34;
/// Height of a bar, in pixels.
const BAR: i32 = 22;
/// Where bars begin and where the longest one ends, in pixels from the left.
const BARS: (i32, i32) = (190, 640);
/// Size of titles and other texts.
const SIZES: (i32, i32) = (19, 16);
const FONT: &str = "system-ui, sans-serif";
const OURS: RGBColor = RGBColor(59, 130, 246);
const OTHERS: RGBColor = RGBColor(148, 163, 184);
const TEXT: RGBColor = RGBColor(31, 41, 55);

/// The goals whose figures are those of contestants with the same work. The limit of all of them is the raw client.
const GOALS: [(&str, &str); 6] = [
    ("p1", "Writes per second (more is better)"),
    ("p2", "CPU time of the operator for each write, µs"),
    ("p3", "Memory after the work (RSS), MB"),
    ("p4", "From a changed spec to three changed children, median, ms"),
    ("p7", "Idle memory (RSS), MB: all shipped plugins in Windlass, one operator in each peer"),
    ("p8", "Idle memory (RSS), MB: many plugins in one Windlass, as many processes of a peer"),
];

/// Draws the figures of a run for which there is a plot, each into a file of its own in this folder. Plots of an earlier run go.
///
/// # Errors
/// If a file cannot be written.
pub fn draw(run: &Value, folder: &Path) -> anyhow::Result<()> {
    let bars = GOALS.iter().map(|(key, title)| (*key, contestants(&run[key]).map(|figures| bars(title, &figures))));
    let churn = ("churn", minutes(&run["churn"]).map(|minutes| lines(&minutes)));
    for (name, plot) in bars.chain([churn]) {
        let file = folder.join(format!("{name}.svg"));
        match plot {
            Some(plot) => {
                fs::create_dir_all(folder)?;
                fs::write(&file, plot?).with_context(|| format!("{} cannot be written", file.display()))?;
            }
            None if file.exists() => fs::remove_file(&file)?,
            None => {}
        }
    }
    Ok(())
}

/// The names and figures of a goal's contestants; none if it was not measured, or has nothing beside Windlass.
fn contestants(goal: &Value) -> Option<Vec<(String, f64)>> {
    let peers = goal["peers"].as_object()?;
    let peers = peers.iter().filter_map(|(name, figure)| Some((name.clone(), figure.as_f64()?)));
    let limit = goal["limit"].as_f64().map(|figure| ("raw client".to_owned(), figure));
    let all: Vec<_> =
        std::iter::once(("Windlass".to_owned(), goal["windlass"].as_f64()?)).chain(peers).chain(limit).collect();
    (all.len() > 1).then_some(all)
}

/// The anonymous memory and the RSS at the end of each minute, in MB.
fn minutes(churn: &Value) -> Option<Vec<[f64; 2]>> {
    let of = |minute: &Value| Some([minute["anonymous"].as_f64()? / MB, minute["rss"].as_f64()? / MB]);
    churn["minutes"].as_array()?.iter().map(of).collect()
}

/// A horizontal bar for each contestant, Windlass' first.
fn bars(title: &str, contestants: &[(String, f64)]) -> anyhow::Result<String> {
    let height = TITLE + ROW * i32::try_from(contestants.len())?;
    let longest = contestants.iter().map(|(_, figure)| *figure).fold(f64::MIN_POSITIVE, f64::max);
    let mut svg = String::new();
    let area = SVGBackend::with_string(&mut svg, (WIDTH, u32::try_from(height)?)).into_drawing_area();
    area.fill(&WHITE)?;
    let text = |size| (FONT, size).into_font().color(&TEXT);
    area.draw(&Text::new(title.to_owned(), (16, 14), text(SIZES.0)))?;
    let mut top = TITLE;
    for (number, (name, figure)) in contestants.iter().enumerate() {
        let color = if number == 0 { OURS } else { OTHERS };
        let end = BARS.0 + pixels(figure / longest * f64::from(BARS.1 - BARS.0));
        area.draw(&Text::new(name.clone(), (16, top + 4), text(SIZES.1)))?;
        area.draw(&Rectangle::new([(BARS.0, top), (end.max(BARS.0 + 2), top + BAR)], color.filled()))?;
        area.draw(&Text::new(short(*figure), (end + 8, top + 4), text(SIZES.1)))?;
        top += ROW;
    }
    area.present()?;
    drop(area);
    Ok(svg)
}

/// Two lines over the minutes.
fn lines(minutes: &[[f64; 2]]) -> anyhow::Result<String> {
    let last = f64::from(u32::try_from(minutes.len())?);
    let most = minutes.iter().flatten().copied().fold(1.0, f64::max);
    let mut svg = String::new();
    let area = SVGBackend::with_string(&mut svg, (WIDTH, HEIGHT)).into_drawing_area();
    area.fill(&WHITE)?;
    let style = (FONT, SIZES.1).into_font().color(&TEXT);
    let title = (FONT, SIZES.0).into_font().color(&TEXT);
    area.draw(&Text::new("Memory of a host under churn, MB", (16, 14), title))?;
    let mut chart = ChartBuilder::on(&area)
        .margin(16)
        .margin_top(TITLE)
        .x_label_area_size(44)
        .y_label_area_size(44)
        .build_cartesian_2d(0.0..last, 0.0..most * 1.1)?;
    let mut mesh = chart.configure_mesh();
    mesh.x_desc("minute").axis_desc_style(style.clone()).label_style(style.clone()).y_labels(6);
    let whole = |value: &f64| format!("{value:.0}");
    mesh.x_label_formatter(&whole).y_label_formatter(&whole);
    mesh.disable_x_mesh().max_light_lines(0).bold_line_style(OTHERS.mix(0.4)).draw()?;
    for (at, (name, color)) in [("anonymous", OURS), ("RSS", OTHERS)].into_iter().enumerate() {
        let points = (1_u32..).zip(minutes).filter_map(|(minute, both)| Some((f64::from(minute), *both.get(at)?)));
        chart
            .draw_series(LineSeries::new(points, color.stroke_width(2)))?
            .label(name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], color.stroke_width(2)));
    }
    let labels = SeriesLabelPosition::MiddleRight;
    chart.configure_series_labels().position(labels).label_font(style).background_style(WHITE).draw()?;
    area.present()?;
    drop(chart);
    drop(area);
    Ok(svg)
}

/// A length as whole pixels.
#[expect(clippy::cast_possible_truncation, reason = "plots are some hundred pixels wide")]
fn pixels(length: f64) -> i32 {
    length as i32
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_measured_goal_with_contestants_has_a_plot_with_their_names_and_figures() {
        let folder = tempfile::tempdir().expect("a folder");
        let run = json!({
            "p1": {"windlass": 1500.0, "limit": 2000.0, "peers": {"kopf": 500.0}},
            "p5": {"windlass": 30.0, "limit": null, "peers": {}},
            "p7": {"windlass": 30.0, "limit": null, "peers": {}},
            "churn": {"minutes": [{"anonymous": 8e6, "rss": 30e6}, {"anonymous": 9e6, "rss": 31e6}]},
        });
        fs::write(folder.path().join("p2.svg"), "of an earlier run").expect("written");
        draw(&run, folder.path()).expect("plots");
        let mut files: Vec<_> = fs::read_dir(folder.path())
            .expect("a folder")
            .map(|file| file.expect("a file").file_name().into_string().expect("a name"))
            .collect();
        files.sort();
        assert_eq!(files, ["churn.svg", "p1.svg"], "a goal without contestants has no plot");
        let p1 = fs::read_to_string(folder.path().join("p1.svg")).expect("a plot");
        for text in ["Windlass", "1500", "raw client", "2000", "kopf", "500"] {
            assert!(p1.contains(&format!("\n{text}\n")), "{text}: {p1}");
        }
        let churn = fs::read_to_string(folder.path().join("churn.svg")).expect("a plot");
        assert!(churn.contains("minute") && churn.contains("anonymous") && churn.contains("RSS"), "{churn}");
    }
}
