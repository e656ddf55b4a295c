//! The report as one HTML page, drawn by the generator's own pages.

use report::figure::{Figure, Scale, short};
use report::html::Page;

use crate::document::Document;
use crate::pictures::{
    Percentile, calls_table, cell_table, cost_heat, cost_table, lambda_heat, lambda_table,
    latency_heat, point_plot, point_table,
};
use crate::plan::{CONNECTIONS, KEYS, PIPELINE};
use crate::table::{Cell, Point};

impl Document {
    /// The title of the report.
    pub fn title(&self) -> String {
        let memcached = self.subject.memcached.as_ref();
        let beside = memcached.map_or(String::new(), |it| format!(" and {it}"));
        format!("The lab: four I/O styles{beside}")
    }

    /// What was measured, in a line.
    pub fn setup(&self) -> String {
        let subject = &self.subject;
        format!(
            "{} form of {}, volvox {} (build {}); {}. One worker on a core of its own, the \
             generator on another. {CONNECTIONS} connections with {PIPELINE} requests each at \
             most; {KEYS} keys of 20 bytes, a tenth of which takes 90 % of all requests; open \
             loop; every value compared.",
            subject.form,
            subject.date,
            subject.version,
            subject.build,
            subject.machine.line()
        )
    }

    /// As a page.
    pub fn page(&self) -> Page {
        let filled = self.cells.len() - self.empty_cells.len();
        let peaks = self.lambda_max.iter();
        let best = peaks.filter_map(|peak| peak.lambda_max.map(|of| (peak, of.per_s)));
        let mut facts =
            vec![("cells filled".to_string(), format!("{filled} of {}", self.cells.len()))];
        if let Some((peak, per_s)) = best.max_by(|a, b| a.1.total_cmp(&b.1)) {
            let place =
                format!("highest lambda-max: {}, {} B, {}", peak.contestant, peak.size, peak.mix);
            facts.push((place, format!("{}/s", short(per_s))));
        }
        let mut warnings = vec![self.scope.to_string()];
        warnings.extend(self.doubts.iter().chain(&self.missing).cloned());
        Page {
            title: self.title(),
            setup: self.setup(),
            facts,
            warnings,
            sections: vec![
                ("Who wins where, and why".to_string(), self.reasons()),
                ("Latencies".to_string(), self.latencies()),
                ("Clients".to_string(), self.clients()),
                ("Workers".to_string(), self.workers()),
                ("Index, cold and warm".to_string(), self.index()),
            ],
        }
    }

    fn reasons(&self) -> Vec<Figure> {
        vec![
            Figure::Text(self.verdict.clone()),
            lambda_heat(self),
            cost_heat(self),
            Figure::Table(lambda_table(self)),
            Figure::Table(cost_table(self)),
            Figure::Table(calls_table(self)),
        ]
    }

    fn latencies(&self) -> Vec<Figure> {
        let percentiles: [Percentile; 3] =
            [("p50", |cell| cell.p50_us), ("p95", |cell| cell.p95_us), ("p99", |cell| cell.p99_us)];
        let mut figures = Vec::new();
        for op in ["GET", "PUT"] {
            figures.extend(percentiles.map(|percentile| latency_heat(self, op, percentile)));
        }
        for (size, cells) in self.by_size() {
            figures.push(Figure::Table(cell_table(&cells, &format!("Values of {size} bytes"))));
        }
        figures
    }

    /// The cells of each size.
    pub fn by_size(&self) -> Vec<(u32, Vec<&Cell>)> {
        let mut sizes: Vec<(u32, Vec<&Cell>)> = Vec::new();
        for cell in &self.cells {
            match sizes.last_mut() {
                Some((size, cells)) if *size == cell.size => cells.push(cell),
                _ => sizes.push((cell.size, vec![cell])),
            }
        }
        sizes
    }

    fn clients(&self) -> Vec<Figure> {
        let axes = |y| ("clients", Scale::Linear, y);
        let points = &self.clients;
        vec![
            point_plot(self, points, "Throughput", axes("requests per second"), |p| p.per_s),
            point_plot(self, points, "p99 of gets", axes("us"), |p| p.get_p99_us),
            Figure::Table(point_table(points, "Closed loop, one request each", "clients")),
        ]
    }

    fn workers(&self) -> Vec<Figure> {
        let axes = |y| ("workers", Scale::Linear, y);
        let points = &self.workers;
        let title = "Closed loop; nobody has a core of its own, the generator needs one too";
        vec![
            point_plot(self, points, "Throughput", axes("requests per second"), |p| p.per_s),
            point_plot(self, points, "Server CPU per request", axes("us"), |p| {
                p.cpu_us_per_request
            }),
            Figure::Table(point_table(points, title, "workers")),
        ]
    }

    fn index(&self) -> Vec<Figure> {
        let axes = |y| ("entries", Scale::Log, y);
        let per_s: fn(&Point) -> Option<f64> = |point| point.per_s;
        let rate = "requests per second";
        vec![
            point_plot(self, &self.index_cold, "Cold: missed and stored", axes(rate), per_s),
            point_plot(self, &self.index_warm, "Warm: found", axes(rate), per_s),
            Figure::Table(point_table(
                &self.index_cold,
                "Cold: every key is asked for, missed, and stored in an index that grows",
                "entries",
            )),
            Figure::Table(point_table(
                &self.index_warm,
                "Warm: as many requests, all found",
                "entries",
            )),
        ]
    }
}

#[cfg(test)]
mod tests {
    use crate::document::tests::document;

    #[test]
    fn the_page_says_what_it_is_of_and_lets_nothing_through() {
        let html = document().page().to_html();
        for part in
            ["memory alone", "Who wins where", "X &amp; Y", "Index, cold and warm", "PUT p99"]
        {
            assert!(html.contains(part), "{part}");
        }
    }
}
