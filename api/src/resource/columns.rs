//! Columns of Tables (API-68).

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;

use super::FieldPath;
use crate::object::Object;

/// A column of a Table (API-68).
#[derive(Clone, Debug)]
pub struct Column {
    /// The heading.
    pub name: String,
    /// `string`, `integer`, `boolean`, …
    pub kind: String,
    /// `name` for the first column of most Tables, `""` otherwise.
    pub format: String,
    /// 0 is always shown, 1 only with `-o wide`.
    pub priority: u8,
    /// A description of the column.
    pub description: Description,
    /// The function that computes a cell.
    pub cell: Cell,
    /// Whether the column definitions list it. Rows have a cell in any case (http.md 6.4).
    pub is_listed: bool,
}

/// The description of a column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Description {
    /// A text.
    Text(String),
    /// The OpenAPI description of the field that the column shows.
    OfField(OfField),
}

/// A field by its type and name: `core.v1.PodStatus.podIP`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OfField(pub &'static str);

impl From<&str> for Description {
    fn from(text: &str) -> Description {
        Description::Text(text.to_owned())
    }
}

impl From<OfField> for Description {
    fn from(field: OfField) -> Description {
        Description::OfField(field)
    }
}

impl Column {
    /// Returns a text column that is always shown.
    pub fn text(name: &str, description: impl Into<Description>, cell: Cell) -> Column {
        Column {
            name: name.to_owned(),
            kind: "string".to_owned(),
            format: String::new(),
            priority: 0,
            description: description.into(),
            cell,
            is_listed: true,
        }
    }

    /// Returns an integer column that is always shown.
    pub fn integer(name: &str, description: impl Into<Description>, cell: Cell) -> Column {
        Column {
            kind: "integer".to_owned(),
            ..Column::text(name, description, cell)
        }
    }

    /// Returns a boolean column that is always shown.
    pub fn boolean(name: &str, description: impl Into<Description>, cell: Cell) -> Column {
        Column {
            kind: "boolean".to_owned(),
            ..Column::text(name, description, cell)
        }
    }

    /// Returns the same column, shown only with `-o wide`.
    #[must_use]
    pub fn wide(self) -> Column {
        Column {
            priority: 1,
            ..self
        }
    }

    /// Returns the same column without a column definition: Tables have only its cells.
    #[must_use]
    pub fn unlisted(self) -> Column {
        Column {
            is_listed: false,
            ..self
        }
    }

    /// Returns the first column of most Tables.
    pub fn name() -> Column {
        let description = OfField("meta.v1.ObjectMeta.name");
        Column {
            format: "name".to_owned(),
            ..Column::text("Name", description, Cell::Name)
        }
    }

    /// Returns the column with the time of creation, for kinds without columns of their own.
    pub fn created_at() -> Column {
        // The empty object of a bookmark shows Go's zero time.
        let cell = Cell::computed(|object, _| match object.meta("creationTimestamp") {
            "" => "0001-01-01T00:00:00Z".into(),
            created => created.into(),
        });
        Column {
            kind: "date".to_owned(),
            ..Column::text(
                "Created At",
                OfField("meta.v1.ObjectMeta.creationTimestamp"),
                cell,
            )
        }
    }

    /// Returns the column with the time since creation.
    pub fn age() -> Column {
        Column::text(
            "Age",
            OfField("meta.v1.ObjectMeta.creationTimestamp"),
            Cell::Age,
        )
    }
}

/// The function that computes a Table's cell from an object (API-76, API-77, API-218).
#[derive(Clone)]
pub enum Cell {
    /// `metadata.name`.
    Name,
    /// The time since creation in short human form.
    Age,
    /// The creation time as RFC 3339 text.
    CreatedAt,
    /// The text at a path, empty if absent.
    Text(FieldPath),
    /// The total number of members or items at these paths.
    Count(Vec<FieldPath>),
    /// Any other function of the object and the current time.
    Computed(Arc<Compute>),
}

/// Computes a cell from an object and the current time.
pub type Compute = dyn Fn(&Object, Timestamp) -> Value + Send + Sync;

impl Cell {
    /// Returns a cell that this function computes from the object and the current time.
    pub fn computed(compute: impl Fn(&Object, Timestamp) -> Value + Send + Sync + 'static) -> Cell {
        Cell::Computed(Arc::new(compute))
    }
}

impl std::fmt::Debug for Cell {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Cell::Name => f.write_str("Name"),
            Cell::Age => f.write_str("Age"),
            Cell::CreatedAt => f.write_str("CreatedAt"),
            Cell::Text(path) => write!(f, "Text({path})"),
            Cell::Count(paths) => write!(f, "Count({paths:?})"),
            Cell::Computed(_) => f.write_str("Computed"),
        }
    }
}
