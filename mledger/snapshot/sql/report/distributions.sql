-- Distributions
-- How many subscriptions have a backlog, and topics a size and ledgers, in bins whose width grows with the value. Bin -1
-- is 0. Those of backlogs begin with 1, 2, 5, 10, 20, 50, …; those of bytes with 1, 4, 16, …; those of ledgers with 1,
-- 2, 4, ….
with measured as (
    select 'backlog' as figure, entries as value from cursor_backlog
    union all
    select 'bytes' as figure, bytes as value from topic_figures
    union all
    select 'ledgers' as figure, ledgers as value from topic_figures
),
sized as (
    select figure, value, length(bin(value)) as bits, length(cast(value as varchar(20))) as digits,
           cast(substring(cast(value as varchar(20)), 1, 1) as int) as first_digit
    from measured
    where value > 0
),
binned as (
    select figure, case figure when 'backlog' then 3 * (digits - 1) + case when first_digit >= 5 then 2
                                                                           when first_digit >= 2 then 1 else 0 end
                               when 'bytes' then cast(floor((bits - 1) / 2) as int)
                               else bits - 1 end as bin
    from sized
    union all
    select figure, -1 as bin from measured where value is null or value <= 0
)
select figure, bin, count(*) as number
from binned
group by figure, bin
order by figure, bin
