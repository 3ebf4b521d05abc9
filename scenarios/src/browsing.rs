// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Clients who visit pages with a browser.

use serde::Serialize;
use tidegate_client::Browser;

/// More would be no page; one connection after the other, it would take a client minutes.
const OBJECTS_MAX: u16 = 1000;
const PAGES_MAX: f64 = 1000.0;

/// Visits to pages by a browser, instead of single connections (Jamjoom 2.2, 2.3).
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Browsing {
    /// Name of a browser's profile.
    pub browser: String,
    /// Objects embedded in a page.
    pub objects: u16,
    /// Pages that a client visits one after the other, in the mean.
    pub pages: f64,
    /// Time between two of them, in s, in the mean.
    pub think_s: f64,
}

impl Default for Browsing {
    fn default() -> Self {
        // 21.2 objects on average (Jamjoom, table 2).
        Self { browser: String::new(), objects: 21, pages: 1.0, think_s: 0.0 }
    }
}

impl Browsing {
    /// Requests that a client makes in all, in the mean, when everything is answered.
    #[must_use]
    pub fn requests_a_client(&self) -> f64 {
        self.requests_a_visit() * self.pages
    }

    /// Those of one visit: the page and its objects.
    #[must_use]
    pub fn requests_a_visit(&self) -> f64 {
        1.0 + f64::from(self.objects)
    }

    /// Requests on one connection, in the mean; of a browser that is not known, 1.
    pub(crate) fn requests_a_connection(&self) -> f64 {
        let browser = Browser::named(&self.browser);
        browser.map_or(1.0, |browser| {
            self.requests_a_visit() / browser.connections_a_page(self.objects)
        })
    }

    pub(crate) fn check(&self) -> Result<(), String> {
        if self.browser.is_empty() {
            return Err("objects, pages and think_s are of a browser's visits: give browser too, \
                        as in browser = \"chrome\""
                .to_owned());
        }
        Browser::named(&self.browser).map_err(|unknown| unknown.to_string())?;
        if self.objects > OBJECTS_MAX {
            return Err(format!("objects {} is not between 0 and {OBJECTS_MAX}", self.objects));
        }
        if !(1.0..=PAGES_MAX).contains(&self.pages) {
            return Err(format!("pages {} is not between 1 and {PAGES_MAX}", self.pages));
        }
        if !(0.0..=3600.0).contains(&self.think_s) {
            return Err(format!("think_s {} is not between 0 and 3600", self.think_s));
        }
        Ok(())
    }
}
