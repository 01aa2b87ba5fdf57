//! One handler per message.

use actix::{Context, Handler};

use super::Dispatcher;
use super::messages::Hint;

impl Handler<Hint> for Dispatcher {
    type Result = ();

    fn handle(&mut self, _: Hint, _: &mut Context<Dispatcher>) {
        self.hall.look_after_due();
    }
}
